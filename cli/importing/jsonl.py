"""Read records as lines of JSON, as `sealbook export --format jsonl` and `sealbook show -o json` print them.

    {"run": "order-42", "kind": "Note", "case": null, "effect": null, "epoch": 1, "data": {…}, "at": "…", "hash": "…"}

Only `run` and `kind` are needed. Lines of one run, in their order, are one history; its records are new ones, under new
epochs. Where a line says when its record was taken and which hash it had, the new record says so under `original`. An
admission key becomes `original` of the first record. The store's own runs (`~…`) are not taken.
"""

from __future__ import annotations

from typing import Any

from sealbook.cli.importing import documents, strict
from sealbook.cli.importing.entry_json import effect_key, unescaped
from sealbook.cli.importing.history import History, Original, Segment, legal
from sealbook.cli.importing.strict import damaged
from sealbook.cli.screen.words import counted
from sealbook.journal import entries
from sealbook.journal.errors import Refused
from sealbook.journal.records.entries import Entry
from sealbook.journal.records.names import RUN_BYTES_MAX

SOURCE = "jsonl"
ORIGINAL = ("tenant", "at", "hash")  # members of a line that the new record cannot have

Line = dict[str, Any]


def read(text: bytes, name: str) -> list[History]:
    """The histories that this file holds, by run; `Damaged` names the line that is no record."""
    runs: dict[str, list[Line]] = {}
    own = 0
    for number, line in enumerate(documents.read(text, name), 1):
        if not isinstance(line, dict) or not all(isinstance(line.get(member), str) for member in ("run", "kind")):
            raise damaged(name, "is no record: it needs a `run` and a `kind`", f"record {number}")
        if line["run"].startswith("~"):
            own += 1
        else:
            runs.setdefault(line["run"], []).append(line)
    if not runs:
        raise damaged(name, "holds no record of a run")
    remarks = (f"{counted(own, 'record')} of the store's own runs: left out",) if own else ()
    return [_history(run, lines, name, remarks) for run, lines in sorted(runs.items())]


def _history(run: str, lines: list[Line], name: str, remarks: tuple[str, ...]) -> History:
    segments: list[Segment] = []
    epoch: Any = None
    for number, line in enumerate(lines, 1):
        try:
            record = _entry(line)
        except Refused as error:
            raise damaged(name, str(error), f"run {run} record {number}") from error
        if segments and line.get("epoch") == epoch:
            segments[-1] = Segment(SOURCE, (*segments[-1].entries, record))
        else:
            segments.append(Segment(SOURCE, (record,)))
            epoch = line.get("epoch")
    if segments[0].entries[0].kind != "RunAdmitted":
        segments[0] = Segment(SOURCE, (entries.admitted(), *segments[0].entries))
    wanted = legal(run, RUN_BYTES_MAX, run=True)
    original = next((found for line in lines if (found := _original(line)) is not None), None)
    return History(wanted, strict.digest(lines, name), SOURCE, tuple(segments), remarks=remarks, original=original)


def _original(line: Line) -> Original | None:
    """The record that the line was printed from, where it says so."""
    tenant, run, seq, digest = (line.get(member) for member in ("tenant", "run", "seq", "hash"))
    if not (isinstance(tenant, str) and isinstance(run, str) and isinstance(digest, str) and type(seq) is int):
        return None
    return Original(tenant, run, seq, digest) if seq > 0 else None


def _entry(line: Line) -> Entry:
    data = unescaped(line.get("data") or {}, "data")
    if not isinstance(data, dict):
        raise strict.DamagedDocument("data", data, "is no map")
    original = {member: line[member] for member in ORIGINAL if isinstance(line.get(member), str)}
    if line["kind"] == "RunAdmitted":
        original |= {member: data.pop(member) for member in ("source", "id") if member in data}
    if original and "original" not in data:
        data = {**data, "original": original}
    effect = None if line.get("effect") is None else effect_key(line["effect"])
    case = line.get("case")
    return Entry(line["kind"], data, case if isinstance(case, str) else None, effect)
