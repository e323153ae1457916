"""`verify`: derive everything again, and say what was checked, what was found, and what no store can show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sealbook.cli import exit_codes
from sealbook.cli.offline_files import OfflineFiles, verify_files
from sealbook.cli.options import Verb, format_option
from sealbook.cli.rendering import progress
from sealbook.cli.rendering.words import counted
from sealbook.cli.setup import Setup, pass_setup

if TYPE_CHECKING:
    from sealbook.cli.rendering.output import Output
    from sealbook.journal import CheckReport, Finding

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
MEANING = "internally consistent; without an outside checkpoint this does not show completeness or age"
COUNTS = ("tenants", "runs", "records", "bytes", "leaves", "effects", "index_rows", "signatures")


@click.command(
    "verify",
    cls=Verb,
    examples=(
        "sealbook verify",
        "sealbook verify order-42",
        "sealbook --tenant acme verify",
        "sealbook verify -o json",
        "sealbook verify --proof order-45.tlog-proof --records order-45.records --policy policy.txt --state seen.json",
    ),
)
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@click.option("--strict", is_flag=True, help="Exit with 1 if anything was not checked.")
@click.option("--proof", type=FILE, metavar="FILE", help="Verify this .tlog-proof instead, without any store.")
@click.option("--records", type=FILE, metavar="FILE", help="The run's records: `sealbook run RUN -o records`.")
@click.option("--policy", type=FILE, metavar="FILE", help="Which logs and witnesses count: a tlog-policy.")
@click.option(
    "--state",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Remembers a checkpoint of each log: an older or other one is refused, a larger one needs --consistency.",
)
@click.option(
    "--consistency",
    type=FILE,
    metavar="FILE",
    help="Proof that the checkpoint begins with the one in --state: `sealbook log consistency OLD -o json`.",
)
@click.option("--max-age", metavar="AGE", help="Only cosignatures no older count: seconds, or 90m, 36h, 7d.")
@click.option("--sealed", is_flag=True, help="Refuse an anchor: the run must be whole and sealed.")
@format_option("text", "json")
@pass_setup
def command(
    setup: Setup,
    runs: tuple[str, ...],
    strict: bool,
    proof: Path | None,
    records: Path | None,
    policy: Path | None,
    state: Path | None,
    consistency: Path | None,
    max_age: str | None,
    sealed: bool,
    form: str,
) -> int:
    """Derive everything again from the record bytes and report every difference.

    All tenants are checked, unless --tenant is given; with RUNs, those of the tenant down to their leaves in the log.
    Exit codes: 0 consistent, 3 not, 1 if records of a newer version were met, or, with --strict, if anything was not
    checked. What a store alone cannot show is listed as not checked.

    With --proof no store is needed: the records' bytes, their chain, the leaf, the log's root, its signature and the
    quorum of witnesses are recomputed from the files. 3 if any of that does not hold, 1 if the leaf covers not all of
    the records. --state remembers the first checkpoint of a log that is accepted, and a larger one once --consistency
    has shown that it begins with the one before; until then that stays among what was not checked.
    """
    if proof is not None:
        if runs or records is None or policy is None:
            raise click.UsageError("--proof goes with --records and --policy, and without a RUN")
        files = OfflineFiles(proof, records, policy, state, consistency)
        return verify_files(setup, files, max_age=max_age, sealed=sealed, strict=strict, form=form)
    if any((records, policy, state, consistency, max_age, sealed)):
        raise click.UsageError("--records, --policy, --state, --consistency, --max-age and --sealed go with --proof")
    return _verify_store(setup, runs, strict, form)


def _verify_store(setup: Setup, runs: tuple[str, ...], strict: bool, form: str) -> int:
    if setup.own_process:
        from sealbook.cli import isolation

        code = isolation.code_of_child(setup.folder)
        if code is not None:
            return code
    from sealbook.journal import NotFound

    only = setup.tenant if setup.tenant_given and not runs else None
    with setup.journal(readonly=True) as journal:
        tenant = journal.tenant(setup.tenant)
        with progress.shown("verifying", quiet=setup.quiet) as report:
            reports = [tenant.verify(run) for run in dict.fromkeys(runs)] or [journal.check(progress=report)]
        tenants = journal.tenants()
    found = [finding for part in reports for finding in part.findings]
    # The tenant's own row may be what is missing: whoever asks for the tenant must hear of that.
    if only is not None and only not in tenants and all(finding.tenant != only for finding in found):
        raise NotFound("tenant", only)
    findings = [finding for finding in found if only is None or finding.tenant in (None, only)]
    if len(findings) < len(found):
        others = len(found) - len(findings)
        setup.remark(f"findings of other tenants are not told ({others}): verify without --tenant")
    not_checked = list(dict.fromkeys(line for part in reports for line in part.not_checked))
    with setup.output() as output:
        if form == "json":
            _print_object(output, reports, findings, not_checked)
        else:
            _print_text(output, reports, findings, not_checked)
    if any(not finding.newer for finding in findings):
        return exit_codes.INTEGRITY
    return exit_codes.INCOMPLETE if findings or (strict and not_checked) else exit_codes.OK


def counts(reports: Sequence[CheckReport]) -> dict[str, int]:
    """How much was checked in all."""
    return {name: sum(getattr(report, name) for report in reports) for name in COUNTS}


def _print_object(
    output: Output, reports: Sequence[CheckReport], findings: Sequence[Finding], not_checked: Sequence[str]
) -> None:
    from sealbook.cli.rendering import objects

    answer: dict[str, Any] = {
        "consistent": all(finding.newer for finding in findings),
        "meaning": MEANING,
        "checked": counts(reports),
        "findings": [_finding_object(finding) for finding in findings],
        "findings_more": sum(report.findings_more for report in reports),
        "not_checked": list(not_checked),
    }
    output.line(objects.text(answer))


def _finding_object(finding: Finding) -> dict[str, Any]:
    from sealbook.cli.rendering import objects
    from sealbook.journal.errors import key_text

    return {
        "tenant": finding.tenant,
        "run": finding.run,
        "seq": finding.seq,
        "table": finding.table,
        "key": objects.hex_or_none(finding.key),
        "key_text": None if finding.key is None else key_text(finding.key),
        "what": finding.what,
        "newer": finding.newer,
    }


def _print_text(
    output: Output, reports: Sequence[CheckReport], findings: Sequence[Finding], not_checked: Sequence[str]
) -> None:
    from sealbook.cli.rendering.safe import safe

    damage = [finding for finding in findings if not finding.newer]
    more = sum(report.findings_more for report in reports)
    if damage:
        told = f"NOT consistent: {counted(len(damage) + more, 'finding')}"
        output.line(output.paint(f"{told}, {len(damage)} of them told" if more else told, "red", "bold"))
    else:
        output.line(output.paint(MEANING, "green"))
    for finding in findings:
        output.line(output.paint(finding_line(finding), "yellow" if finding.newer else "red"))
    found = counts(reports)
    parts = [counted(found[name], *_WORDS[name]) for name in COUNTS]
    output.line(f"checked: {', '.join(parts)}")
    for line in not_checked:
        output.line(output.paint(f"not checked: {safe(line)}", "bold"))


_WORDS = {
    "tenants": ("tenant",),
    "runs": ("run",),
    "records": ("record",),
    "bytes": ("byte",),
    "leaves": ("leaf", "leaves"),
    "effects": ("effect",),
    "index_rows": ("index row",),
    "signatures": ("signature",),
}


def finding_line(finding: Finding) -> str:
    """A finding in one line: where it is, as exactly as it is known, and what is wrong there."""
    from sealbook.cli.rendering.safe import safe
    from sealbook.journal.errors import key_text

    place = []
    if finding.tenant is not None:
        place.append(f"tenant {safe(finding.tenant)}")
    if finding.run is not None:
        place.append(f"run {safe(finding.run)}")
    if finding.seq is not None:
        place.append(f"record {finding.seq}")
    if finding.table is not None:
        place.append(f"table {safe(finding.table)}")
    if finding.key is not None:
        place.append(f"key {safe(key_text(finding.key))} ({finding.key.hex()})")
    word = "newer: " if finding.newer else ""
    return f"{word}{', '.join(place)}: {safe(finding.what)}"
