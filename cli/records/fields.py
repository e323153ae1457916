"""The fields of a record by name, as matches, listings of values and `--output-fields` know them.

Most are the record's own. SOURCE, OUTCOME and OWNER are those of its run as it stands now: who admitted it, how it last
concluded, who holds its lease. `DATA.name` is a member of the record's data, `DATA.name.name` one further in.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from sealbook.cli.records import objects
from sealbook.journal.records import instants, names

if TYPE_CHECKING:
    from sealbook.indexes.standing import Standing
    from sealbook.journal import Record, Tenant

STANDINGS_KEPT = 4096  # of runs whose fields are asked for: more are read again

OF_RECORD: dict[str, Callable[[Record], str | None]] = {
    "TENANT": lambda record: record.tenant,
    "RUN": lambda record: record.run,
    "SEQ": lambda record: str(record.seq),
    "ARRIVAL": lambda record: str(record.arrival),
    "EPOCH": lambda record: str(record.epoch),
    "AT": lambda record: instants.of_millis(record.at),
    "KIND": lambda record: record.kind,
    "CASE": lambda record: record.case,
    "EFFECT": lambda record: objects.hex_or_none(record.effect),
    "ATTEMPT": lambda record: None if record.attempt is None else str(record.attempt),
    "KEYID": lambda record: objects.hex_or_none(record.signer),
    "PREV": lambda record: record.prev.hex(),
    "HASH": lambda record: record.hash.hex(),
}
OF_RUN: dict[str, Callable[[Standing], str | None]] = {
    "SOURCE": lambda standing: standing.source,
    "OUTCOME": lambda standing: standing.outcome,
    "OWNER": lambda standing: standing.owner,
}
NAMES = (*OF_RECORD, *OF_RUN)
IN_DATA = "DATA."

_NUMBER = re.compile(r"0|[1-9][0-9]{0,19}")
_DIGEST = re.compile(r"[0-9A-Fa-f]{64}")
NUMBERS = frozenset({"SEQ", "ARRIVAL", "EPOCH", "ATTEMPT"})
DIGESTS = frozenset({"EFFECT", "KEYID", "PREV", "HASH"})


def name_of(text: str) -> str:
    """The field that a person names, in any case of letters; a usage error for one that no record has."""
    if text[: len(IN_DATA)].upper() == IN_DATA and len(text) > len(IN_DATA):
        return IN_DATA + text[len(IN_DATA) :]
    if text.upper() not in NAMES:
        raise click.BadParameter(f"there is no field {text!r}: there are {', '.join(NAMES)} and DATA.name")
    return text.upper()


def value_of(field: str, text: str) -> str:
    """The value of a match as the field has it. A usage error for one that this field can have in no record, as no seq
    is `abc`; a name that is legal and stands nowhere is a value like any other."""
    if field in NUMBERS and not _NUMBER.fullmatch(text):
        raise click.BadParameter(f"{field}={text}: {field} is a number such as 42")
    if field in DIGESTS:
        if not _DIGEST.fullmatch(text):
            raise click.BadParameter(f"{field}={text}: {field} has 64 hex digits, as `-o json` prints them")
        return text.lower()
    if field == "AT":
        try:
            return instants.of_millis(instants.parse(text) // 1000)
        except ValueError as error:
            raise click.BadParameter(f"AT={text}: {error}") from error
    check = {
        "TENANT": names.check_tenant,
        "RUN": names.check_run,
        "KIND": names.check_kind,
        "CASE": names.check_case,
        "SOURCE": names.check_source,
        "OUTCOME": names.check_outcome,
        "OWNER": names.check_owner,
    }.get(field)
    return text if check is None else check(text)


class Fields:
    """Reads the fields of a tenant's records."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._standings: dict[str, Standing] = {}

    def value(self, record: Record, name: str) -> str | None:
        """What the record has under this name, as text; None for nothing."""
        if name in OF_RECORD:
            return OF_RECORD[name](record)
        if name in OF_RUN:
            return OF_RUN[name](self._standing(record))
        return member_text(record.data, name.removeprefix(IN_DATA))

    def _standing(self, record: Record) -> Standing:
        """Where the record's run stands: read again once the run has gone on."""
        standing = self._standings.get(record.run)
        if standing is None or standing.records < record.seq:
            if len(self._standings) == STANDINGS_KEPT:
                self._standings.clear()
            standing = self._tenant.standing(record.run)
            assert standing is not None, "a run whose record was read has a standing"
            self._standings[record.run] = standing
        return standing


def member_text(data: Any, path: str) -> str | None:
    """A member of data by its dotted path, as text: text as it is, everything else as JSON; None for none."""
    value = data
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    return value if isinstance(value, str) else objects.text(objects.data(value))
