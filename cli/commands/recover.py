"""`recover`: salvage what is readable of a damaged store into a new one, and say exactly what was lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from sealbook.cli.auditing import verdict
from sealbook.cli.auditing.verdict import AuditVerdict
from sealbook.cli.ground import exit_codes
from sealbook.cli.ground.options import Verb, format_option
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.records import objects
from sealbook.cli.screen import progress
from sealbook.cli.screen.output import Output
from sealbook.cli.screen.safe import safe
from sealbook.cli.screen.words import counted
from sealbook.journal import Journal
from sealbook.journal.copies.backup import holding
from sealbook.journal.copies.salvage.recovering import RecoveredTenant, Recovery, recover

FOLDER = click.Path(path_type=Path, file_okay=False)
NOT_CARRIED = (
    "leases: whoever held one must acquire it anew",
    "the store's secret: cursors of the old store are refused",
    "the store log: give it a new name, under the old one witnesses know another history",
    "keys: they live outside of the store, and with them what they have signed",
)
SHOWN = 20  # faults of the data file; `-o json` has all of them


@click.command(
    "recover",
    cls=Verb,
    examples=(
        "sealbook recover agents.sealbook recovered.sealbook --actor ada --reason 'bad sectors'",
        "sealbook recover agents.backup back-in-service.sealbook --actor ada",
    ),
)
@click.argument("source", metavar="SRC", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("target", metavar="DST", type=FOLDER)
@click.option("--actor", required=True, metavar="NAME", help="Who recovers; stands in each tenant's own run.")
@click.option("--reason", default="", metavar="TEXT", help="Why; stands there, too.")
@format_option("short", "json")
@pass_setup
def command(setup: Setup, source: Path, target: Path, actor: str, reason: str, form: str) -> int:
    """Build the store DST, where nothing may stand, from what is readable in the store or backup SRC.

    SRC is not changed. Its data file is read page by page, whatever state it is in; what cannot be read is passed over.
    A run is kept up to its first record that is lost. The records behind a lost one get other numbers in the order of
    arrival. A log is kept up to its first leaf that is lost; what can still be attested behind it enters again, at
    other positions. Where more was signed than that, the log goes on under another name: `sealbook log adopt`.

    Of a whole store or backup the copy is whole, with epochs above all that were issued: so a backup is brought back.

    Exit codes: 0 nothing was lost, 1 something was, and is told, 3 nothing can be believed, or the new store does not
    pass its check.
    """
    with holding(source) as folder, progress.shown("recovering", quiet=setup.quiet) as report:
        found = recover(folder, target, actor=actor, reason=reason, origin=setup.origin, progress=report)
    with Journal.open(target, readonly=True, origin=setup.origin) as journal:
        checked = journal.check()
    judged = verdict.AuditVerdict([checked], checked.findings, checked.not_checked)
    with setup.report("the recovered store stands") as output:
        if form == "json":
            _print_object(output, target, found, judged)
        else:
            _print(output, found, judged)
            for line in () if setup.quiet else NOT_CARRIED:
                output.line(f"not carried: {line}")
    if judged.damaged:
        return exit_codes.INTEGRITY
    return exit_codes.OK if found.whole else exit_codes.INCOMPLETE


# --- JSON ----------------------------------------------------------------------------------------------------------


def _print_object(output: Output, target: Path, found: Recovery, judged: AuditVerdict) -> None:
    answer = {
        "path": str(target).encode("utf-8", "backslashreplace").decode(),
        "whole": found.whole,
        "restoration": found.restoration,
        "tenants": [_tenant_object(tenant) for tenant in found.tenants],
        "unreadable": [{"page": fault.page, "table": fault.table, "what": fault.what} for fault in found.faults],
        "unbelieved": found.unbelieved,
        "remarks": list(found.remarks),
        "verdict": verdict.as_object(judged),
        "not_carried": list(NOT_CARRIED),
    }
    output.line(objects.text(answer))


def _tenant_object(tenant: RecoveredTenant) -> dict[str, Any]:
    log = tenant.log
    return {
        "tenant": tenant.tenant,
        "origin": tenant.origin,
        "records": tenant.records,
        "lost_records": tenant.lost_records,
        "lost_arrivals": _ranges(tenant.lost_arrivals),
        "lost_runs": [{"run": run.run, "kept": run.kept, "known": run.known} for run in tenant.lost_runs],
        "lost_nameless": tenant.lost_nameless,
        "loose": tenant.loose,
        "size": log.size,
        "root": log.root.hex(),
        "size_before": log.known,
        "size_agreed": log.agreed,
        "lost_leaves": _ranges(log.lost),
        "checkpoints": len(log.notes),
        "checkpoints_before": log.notes_known,
        "must_adopt": tenant.must_adopt,
        "old_checkpoint": None if log.signed_note is None else log.signed_note.decode(),
        "awaiting": tenant.awaiting,
    }


def _ranges(ranges: Sequence[tuple[int, int]]) -> list[dict[str, int]]:
    return [{"first": first, "last": last} for first, last in ranges]


# --- text ----------------------------------------------------------------------------------------------------------


def _print(output: Output, found: Recovery, judged: AuditVerdict) -> None:
    for tenant in found.tenants:
        for number, line in enumerate(_told(tenant)):
            output.line(output.paint(f"  {line}", "red") if number else line)
        if tenant.awaiting:
            output.line(
                output.paint(f"  {counted(tenant.awaiting, 'open run')}: an operator must let each go on", "yellow")
            )
    for fault in found.faults[:SHOWN]:
        where = f"page {fault.page}" if fault.table is None else f"page {fault.page} of table {safe(fault.table)}"
        output.line(f"unreadable: {where}: {fault.what}")
    if len(found.faults) > SHOWN:
        output.line(f"unreadable: {len(found.faults) - SHOWN} more")
    if found.unbelieved:
        output.line(f"not believed: {counted(found.unbelieved, 'row')} that could be read and contradict themselves")
    for remark in found.remarks:
        output.line(f"also: {safe(remark)}")
    verdict.print_text(output, judged)


def _told(tenant: RecoveredTenant) -> Iterator[str]:
    """What a tenant has now, and then what it has lost, a line each."""
    log = tenant.log
    leaves = counted(log.size, "leaf", "leaves")
    yield f"{safe(tenant.tenant)}: {counted(tenant.records, 'record')}, {leaves}, root {log.root.hex()}"
    if tenant.lost_arrivals:
        yield f"lost: {counted(tenant.lost_records, 'record')}, by arrival {_shown(tenant.lost_arrivals)}"
    for run in tenant.lost_runs:
        kept = f"records {run.kept + 1} to {run.known}" if run.kept else f"all {counted(run.known, 'record')}"
        yield f"lost: {kept} of run {safe(run.run)}"
    if tenant.lost_nameless:
        yield f"lost: {counted(tenant.lost_nameless, 'record')} of which nothing tells the run"
    if tenant.loose:
        yield f"found outside of the tables: {counted(tenant.loose, 'record')}"
    if log.lost:
        yield f"lost: the leaves {_shown(log.lost)} of the log"
    if log.agreed < log.known:
        yield f"of the log's {counted(log.known, 'leaf', 'leaves')} the first {log.agreed} stand where they stood"
    if len(log.notes) < log.notes_known:
        yield f"lost: {counted(log.notes_known - len(log.notes), 'checkpoint')} that the log does not lead to any more"
    if tenant.must_adopt:
        yield f"size {log.signed} of the log was signed: it goes on under another name, see `sealbook log adopt`"


def _shown(ranges: Sequence[tuple[int, int]]) -> str:
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in ranges)
