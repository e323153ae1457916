"""Read one entry from a JSON text, as scripts hand it in.

    {"kind": "EffectStarted", "data": {"name": "charge"}, "case": "case-7", "effect": ["charge", "42"], "attempt": 1}

Only `kind` is needed. `effect` is 64 hex digits, or the text parts that an effect key is made of. In `data`,
`{"$bytes": "base64"}` stands for bytes, and a name that begins with `$` is written with one more `$`: what `-o json`
prints of a record's data is taken back as it was. Whatever else stands there is refused, and nothing is written.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from sealbook.cli.importing import strict
from sealbook.journal import EffectKey, Entry, InvalidEntry, InvalidName
from sealbook.journal.records import names

NAME = "the entry"
MEMBERS = frozenset({"kind", "data", "case", "effect", "attempt"})


def read(text: bytes) -> Entry:
    """The entry that the text states; `Refused` in one of its forms when it states none."""
    value = strict.loads(text, NAME)
    if not isinstance(value, dict):
        raise InvalidEntry(NAME, 'must be a JSON object such as {"kind": "Note", "data": {"text": "..."}}')
    unknown = sorted(value.keys() - MEMBERS)
    if unknown:
        raise InvalidEntry(NAME, f"has unknown members: {', '.join(map(repr, unknown))}")
    kind, case, attempt = value.get("kind"), value.get("case"), value.get("attempt")
    if not isinstance(kind, str):
        raise InvalidEntry(f"{NAME}'s kind", "must be text, such as Note")
    try:
        names.check_kind(kind)
        if case is not None:
            names.check_case(case)
    except InvalidName as error:
        raise InvalidEntry(NAME, str(error)) from error
    data = value.get("data", {})
    if not isinstance(data, dict):
        raise InvalidEntry(f"{NAME}'s data", "must be an object")
    if "$bytes" in data:
        _bytes(data, f"{NAME}'s data")  # what is wrong within it comes first
        raise InvalidEntry(f"{NAME}'s data", "must be an object of members, one of which may be bytes")
    effect = None if value.get("effect") is None else effect_key(value["effect"])
    return Entry(kind, unescaped(data, f"{NAME}'s data"), case, effect, attempt)


def check_concludes(entry: Entry) -> None:
    """`InvalidEntry` for an entry that no run can be sealed with."""
    if entry.kind != "RunConcluded":
        raise InvalidEntry(
            NAME, f"is a {entry.kind}, and --seal takes a RunConcluded: the run cannot be sealed with it"
        )


def effect_key(value: Any) -> EffectKey:
    """An effect key from its hex digits, or from the parts that it is made of."""
    if isinstance(value, str):
        return EffectKey.from_hex(value)
    if isinstance(value, list):
        return EffectKey(*value)
    raise InvalidEntry(f"{NAME}'s effect", "must be 64 hex digits or a list of text parts")


def unescaped(value: Any, where: str) -> Any:
    """Data as the journal takes it, from data as JSON writes it."""
    if isinstance(value, list):
        return [unescaped(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if "$bytes" in value:
        return _bytes(value, where)
    if "$elided" in value:
        whole = "`sealbook show -a -o json` and `sealbook export --format jsonl` print it whole"
        raise InvalidEntry(where, f"was left out when it was printed: {whole}")
    plain = {}
    for name, item in value.items():
        if name.startswith("$") and not name.startswith("$$"):
            raise InvalidEntry(where, f"has the member {name!r}: write ${name} for a name that begins with $")
        plain[name[1:] if name.startswith("$") else name] = unescaped(item, f"{where}.{name}")
    return plain


def _bytes(value: dict[str, Any], where: str) -> bytes:
    text = value["$bytes"]
    if len(value) != 1 or not isinstance(text, str):
        raise InvalidEntry(where, 'must be {"$bytes": "base64"} and nothing besides')
    try:
        decoded = base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise InvalidEntry(where, "holds no base64 in $bytes: A-Z, a-z, 0-9, + and /, padded with =") from None
    if base64.b64encode(decoded).decode() != text:
        raise InvalidEntry(where, "is not the one base64 spelling of its bytes")
    return decoded
