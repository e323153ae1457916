"""`append`: one entry from JSON, for scripts."""

from __future__ import annotations

import re
import sys

import click

from sealbook.cli.ground.options import Verb, epoch_option, format_option, run_argument
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.importing import entry_json
from sealbook.cli.records.printer import Look, Printer
from sealbook.journal import Appended, Entry, Head, Tenant, requests
from sealbook.journal.errors import printable

_AFTER = re.compile(r"(\d{1,19}):([0-9a-fA-F]{64})", re.ASCII)


def head(value: str) -> tuple[int, bytes]:
    """The end of a run's chain from SEQ:HASH: the number and the 32 bytes."""
    match = _AFTER.fullmatch(value)
    if match is None:
        raise click.BadParameter(f"{value!r} is no SEQ:HASH, a number and 64 hex digits")
    return int(match[1]), bytes.fromhex(match[2])


@click.command(
    "append",
    cls=Verb,
    examples=(
        """sealbook append order-42 --owner script --ttl 30 '{"kind": "Note", "data": {"text": "checked"}}'""",
        """echo '{"kind": "Note"}' | sealbook append order-42 --owner script --ttl 30 -""",
    ),
)
@run_argument
@click.argument("entry", metavar="[JSON|-]", default="-")
@epoch_option("Append under this epoch, which a lease of yours has.")
@click.option(
    "--owner", metavar="NAME", help="Acquire the lease for this owner, append, and release it: all or nothing."
)
@click.option("--ttl", type=float, default=30.0, show_default=True, metavar="S", help="Seconds of that lease.")
@click.option("--after", type=head, metavar="SEQ:HASH", help="Only if this is the run's head.")
@click.option("--seal", is_flag=True, help="Seal the run in the same transaction; the entry is its conclusion.")
@format_option("short", "json")
@pass_setup
def command(
    setup: Setup,
    run: str,
    entry: str,
    epoch: int | None,
    owner: str | None,
    ttl: float,
    after: tuple[int, bytes] | None,
    seal: bool,
    form: str,
) -> None:
    """Append one entry to the run, durably, and print the record that it became.

    The entry is a JSON object {"kind", "data", "case", "effect", "attempt"}; only kind is needed. effect is 64 hex
    digits or a list of text parts. {"$bytes": "base64"} in data stands for bytes; names that begin with $ take one
    more. Without JSON, or with -, the entry is read from standard input.
    """
    if (epoch is None) == (owner is None):
        raise click.UsageError("pass either --epoch, of a lease that you hold, or --owner, to take one for this entry")
    stated = entry_json.read(_stdin() if entry == "-" else entry.encode("utf-8", "surrogateescape"))
    if seal:
        entry_json.check_concludes(stated)
    expected = None if after is None else Head(*after)
    with setup.writing() as tenant:
        if owner is None:
            records = tenant.append(run, [stated], epoch=epoch, after=expected, seal=seal)
        else:
            records = _under_own_lease(tenant, run, stated, owner=owner, ttl=ttl, after=expected, seal=seal)
    if records.replayed:
        setup.remark("the entry stood already: an earlier call had appended it")
    with setup.report(f"record {records[-1].seq} of {printable(run)} was written") as output:
        Printer(output, Look(form, everything=form == "json")).show_all(records)


def _under_own_lease(
    tenant: Tenant, run: str, entry: Entry, *, owner: str, ttl: float, after: Head | None, seal: bool
) -> Appended:
    steps: list[requests.Request] = [
        requests.acquire(run, owner=owner, ttl=ttl),
        requests.append(run, [entry], after=after, seal=seal),
    ]
    if not seal:
        steps.append(requests.release(run))
    records: Appended = tenant.group(steps)[1]
    return records


def _stdin() -> bytes:
    return sys.stdin.buffer.read()
