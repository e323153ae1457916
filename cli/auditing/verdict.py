"""What `verify` and `audit` found, as text and as JSON: findings, what was not checked, what agreed from outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sealbook.cli.ground import exit_codes
from sealbook.cli.screen.words import counted

if TYPE_CHECKING:
    from sealbook.cli.screen.output import Output
    from sealbook.journal import CheckReport, Finding

MEANING = "internally consistent; without an outside checkpoint this does not show completeness or age"
ANCHORED = "internally consistent, and begins with every outside checkpoint given; what followed them it does not show"
OF_OTHERS = "NOT consistent, though nothing that is told here is of this tenant"
COUNTS = ("tenants", "runs", "records", "bytes", "leaves", "effects", "index_rows", "signatures")
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


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    """What a check came to: the reports it is made of, and all findings and open questions of them and beside them.

    `others` are findings of tenants that nobody asked about: they count, and their content is not told.
    """

    reports: Sequence[CheckReport]
    findings: Sequence[Finding]
    not_checked: Sequence[str]
    others: Sequence[Finding] = ()

    @property
    def damaged(self) -> list[Finding]:
        """The findings that are no mere records of a newer version."""
        return [finding for finding in self.findings if not finding.newer]

    @property
    def damaged_elsewhere(self) -> bool:
        """Whether other tenants have findings that are no mere records of a newer version."""
        return any(not finding.newer for finding in self.others)

    @property
    def agreed(self) -> list[str]:
        """The outside checkpoints that the logs agree with."""
        return [line for report in self.reports for line in report.agreed]

    @property
    def meaning(self) -> str:
        """What it means that nothing was found, or nothing of the tenant that was asked about."""
        if self.damaged_elsewhere:
            return OF_OTHERS
        return ANCHORED if self.agreed else MEANING

    def code(self, *, strict: bool) -> int:
        """The exit code."""
        if self.damaged or self.damaged_elsewhere:
            return exit_codes.INTEGRITY
        return exit_codes.INCOMPLETE if self.findings or self.others or (strict and self.not_checked) else exit_codes.OK


def counts(reports: Sequence[CheckReport]) -> dict[str, int]:
    """How much was checked in all."""
    return {name: sum(getattr(report, name) for report in reports) for name in COUNTS}


# --- JSON ----------------------------------------------------------------------------------------------------------


def as_object(verdict: AuditVerdict) -> dict[str, Any]:
    """The verdict as JSON has it."""
    return {
        "consistent": not (verdict.damaged or verdict.damaged_elsewhere),
        "meaning": verdict.meaning,
        "level": verdict.reports[0].level.word,
        "checked": counts(verdict.reports),
        "agreed": verdict.agreed,
        "findings": [finding_object(finding) for finding in verdict.findings],
        "findings_more": sum(report.findings_more for report in verdict.reports),
        "findings_of_others": len(verdict.others),
        "not_checked": list(verdict.not_checked),
    }


def finding_object(finding: Finding) -> dict[str, Any]:
    """A finding as JSON has it."""
    from sealbook.cli.records import objects
    from sealbook.journal.errors import key_text

    return {
        "tenant": finding.tenant,
        "run": finding.run,
        "seq": finding.seq,
        "table": finding.table,
        "key": objects.hex_or_none(finding.key),
        "key_text": None if finding.key is None else key_text(finding.key),
        "what": finding.what,
        "means": finding.means,
        "newer": finding.newer,
    }


# --- text ----------------------------------------------------------------------------------------------------------


def print_text(output: Output, verdict: AuditVerdict) -> None:
    """Print the verdict for people: what it means, every finding, how much was checked, and what was not."""
    from sealbook.cli.screen.safe import safe

    damage = verdict.damaged
    more = sum(report.findings_more for report in verdict.reports)
    if damage:
        told = f"NOT consistent: {counted(len(damage) + more, 'finding')}"
        output.line(output.paint(f"{told}, {len(damage)} of them told" if more else told, "red", "bold"))
    else:
        style = ("red", "bold") if verdict.damaged_elsewhere else ("green",)
        output.line(output.paint(verdict.meaning, *style))
    if verdict.others:
        untold = counted(len(verdict.others), "finding")
        output.line(output.paint(f"{untold} of other tenants, not told here: verify without --tenant", "red"))
    if more and not damage:
        output.line(output.paint(f"{counted(more, 'more finding')}, of whichever tenant, that nobody kept", "red"))
    means = None
    for finding in verdict.findings:
        output.line(output.paint(finding_line(finding), "yellow" if finding.newer else "red"))
        if finding.means != means:  # of findings of one kind in a row it is said once
            output.line(f"  this means: {finding.means}")
        means = finding.means
    found = counts(verdict.reports)
    parts = [counted(found[name], *_WORDS[name]) for name in COUNTS]
    output.line(f"checked: {', '.join(parts)}")
    for line in verdict.agreed:
        output.line(output.paint(f"agrees: {safe(line)}", "green"))
    for line in verdict.not_checked:
        output.line(output.paint(f"not checked: {safe(line)}", "bold"))


def finding_line(finding: Finding) -> str:
    """A finding in one line: where it is, as exactly as it is known, and what is wrong there."""
    from sealbook.cli.screen.safe import safe
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
    return f"{word}{', '.join(place)}: {safe(finding.what)}" if place else f"{word}{safe(finding.what)}"
