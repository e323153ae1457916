"""What an auditor runs over a whole store: everything that can be asked of it, in one report.

1. Everything is derived again (`Journal.check` at level deep), held to the auditor's checkpoints and keys.
2. The leaves of each log keep the rules that a monitor holds a log to (`merkle.monitor`).
3. In a store log, each head of a tag extends the one before it: a proof of consistency is computed and verified.
4. Each checkpoint that was published is signed by its log, and cosigned as the auditor's policy wants.
5. Of runs: which ended for good with an effect in doubt, and how many nobody admitted.

What does not hold is a finding, wherever it is found; the audit goes on. What stays open is listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sealbook.cli.auditing import evidence
from sealbook.cli.auditing import verdict as verdicts
from sealbook.cli.auditing.evidence import Desk, Published
from sealbook.cli.auditing.verdict import AuditVerdict
from sealbook.cli.screen.words import counted
from sealbook.cli.selecting.paging import pages
from sealbook.journal import Corrupt, Finding, Journal, Log, StoreLog
from sealbook.journal.bundle.scratch import Scratch
from sealbook.journal.records.names import STORE_LOG
from sealbook.journal.schema import tables
from sealbook.merkle import tree
from sealbook.merkle.errors import Malformed, VerificationError
from sealbook.merkle.monitor import LeafRules, decode_leaf, tag_of
from sealbook.merkle.note import open_checkpoint
from sealbook.merkle.tenant_head import TenantHead
from sealbook.merkle.verify import verify_consistency

if TYPE_CHECKING:
    from sealbook.cli.screen.output import Output
    from sealbook.cli.screen.progress import Report
    from sealbook.indexes.standing import Standing
    from sealbook.journal import Tenant

PAGE_LEAVES = 1000
UNDECIDED_SHOWN = 20  # `-o json` has all of them


@dataclass(frozen=True, slots=True)
class Undecided:
    """A run that ended for good, and has effects of which nobody knows whether they happened."""

    tenant: str
    run: str
    outcome: str
    effects_in_doubt: int


@dataclass(slots=True)
class Audit:
    """An audit under way, and what it came to. `named` are the logs by the names of their tenants."""

    named: dict[str, Log]
    findings: list[Finding] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)
    logs: list[Published] = field(default_factory=list)
    leaves: int = 0  # held to a monitor's rules
    heads: int = 0  # shown to extend the one before
    checkpoints: int = 0  # whose signatures were verified
    undecided: list[Undecided] = field(default_factory=list)
    unadmitted: int = 0
    unsealed: int = 0


def audit(journal: Journal, logs: Sequence[Log], desk: Desk, progress: Report | None) -> tuple[AuditVerdict, Audit]:
    """Audit the store. Damage is in the verdict."""
    report = journal.check(progress=progress, trust=desk.trust)
    found = Audit({log.name: log for log in logs})
    for log in logs:
        for part in (_rules, _checkpoints) if log.name != STORE_LOG else (_rules, _heads, _checkpoints):
            try:
                part(found, log, desk)
            except (Corrupt, ValueError) as error:
                found.not_checked.append(f"the rest of what is asked of the log {log.name}: its rows are damaged")
                if not report.damaged:
                    found.findings.append(_finding(log, None, f"the log cannot be read: {error}"))
    if STORE_LOG not in found.named:
        found.not_checked.append("a store log, if one is kept: no --store-origin")
    found.logs = list(evidence.publications(logs, desk))
    try:
        _runs(found, journal)
    except Corrupt:
        found.not_checked.append("which runs ended with effects in doubt: rows of runs are damaged")
    findings = [*desk.refused, *report.findings, *found.findings, *evidence.findings_of(found.logs)]
    questions = [*report.not_checked, *evidence.open_questions(found.logs, desk), *found.not_checked]
    return AuditVerdict([report], findings, list(dict.fromkeys(questions))), found


# --- a log -----------------------------------------------------------------------------------------------------------


def _leaves(log: Log) -> Iterator[tuple[int, bytes]]:
    index, size = 0, log.checkpoint().size
    while index < size:
        page = log.leaf_entries(index, PAGE_LEAVES)
        if not page:
            return
        yield from enumerate(page, index)
        index += len(page)


def _rules(found: Audit, log: Log, desk: Desk) -> None:
    """Step 2. One leaf that breaks a rule is told; those after it are held to what it says."""
    rules, newest = LeafRules(), Scratch()
    try:
        for index, data in _leaves(log):
            try:
                leaf = decode_leaf(data)
            except Malformed:
                continue  # a finding of the check
            tag = tag_of(leaf)
            earlier = None if tag is None else newest.get(tag)
            try:
                rules.check(index, leaf, None if earlier is None else decode_leaf(earlier))
            except VerificationError as error:
                found.findings.append(_finding(log, index, str(error)))
            if tag is not None:
                newest.put(tag, data)
            found.leaves += 1
    finally:
        newest.close()


def _heads(found: Audit, log: Log, desk: Desk) -> None:
    """Step 3."""
    assert isinstance(log, StoreLog)
    names, newest, earlier_trees = log.tags(), Scratch(), set()
    try:
        for index, data in _leaves(log):
            try:
                head = TenantHead.decode(data)
            except Malformed:
                continue
            before, tenant = newest.get(head.tag), names.get(head.tag)
            newest.put(head.tag, data)
            if tenant is None:
                earlier_trees.add(head.tag)
            elif before is not None:
                _extends(found, log, index, TenantHead.decode(before), head, found.named[tenant])
    finally:
        newest.close()
    if earlier_trees:
        what = counted(len(earlier_trees), "log")
        found.not_checked.append(f"proofs of consistency between heads of {what} before going on under another origin")


def _extends(found: Audit, log: Log, index: int, before: TenantHead, head: TenantHead, theirs: Log) -> None:
    try:
        proof = tree.consistency_proof(old_size=before.size, new_size=head.size, read=theirs.tree_nodes)
        verify_consistency(
            old_size=before.size, new_size=head.size, old_root=before.root, new_root=head.root, proof=proof
        )
    except (VerificationError, ValueError) as error:
        what = f"the head of size {head.size} does not extend the one of size {before.size}: {error}"
        found.findings.append(_finding(log, index, what, tenant=theirs.name))
        return
    found.heads += 1


def _checkpoints(found: Audit, log: Log, desk: Desk) -> None:
    """Step 4. The last one published is held to the age as well, by `desk.publications`."""
    policy, above, loose = desk.policy, 0, 0
    keys = [] if policy is None else [each.key for each in policy.logs if each.key.name == log.origin]
    while sizes := log.published_sizes(above, PAGE_LEAVES):
        above = sizes[-1]
        for size in sizes:
            kept = log.signed_checkpoint(size)
            if kept is None or kept.note is None or policy is None or not keys:
                continue
            loose += kept.without_quorum
            note = kept.note.encode()
            try:
                if kept.without_quorum:
                    open_checkpoint(note, origin=log.origin, log_keys=keys, cosigner_keys=())
                else:
                    policy.open(note, origin=log.origin)
            except VerificationError as error:
                what = f"the checkpoint of size {size} was published, and the policy does not accept it: {error}"
                found.findings.append(_finding(log, None, what, size=size))
                continue
            found.checkpoints += 1
    if loose:
        checkpoints = counted(loose, "checkpoint")
        found.not_checked.append(f"what witnesses say of {checkpoints} of {log.origin}: published without the quorum")


def _finding(log: Log, index: int | None, what: str, *, tenant: str | None = None, size: int | None = None) -> Finding:
    """A finding about a leaf of the log, or about one of its checkpoints."""
    name = tenant or (None if log.name == STORE_LOG else log.name)
    if index is not None:
        return Finding(name, None, None, tables.LEAVES, tables.number_key(log.name, index), what)
    if size is not None:
        return Finding(name, None, None, tables.CHECKPOINTS, tables.number_key(log.name, size), what)
    return Finding(name, None, None, None, None, what)


# --- runs ------------------------------------------------------------------------------------------------------------


def _standings(tenant: Tenant) -> Iterator[Standing]:
    return pages(lambda after, limit: tenant.runs(after=after, limit=limit))


def _runs(found: Audit, journal: Journal) -> None:
    """Step 5."""
    for name in sorted(found.named.keys() - {STORE_LOG}):
        tenant = journal.tenant(name)
        for standing in _standings(tenant):
            found.unadmitted += standing.admitted_at is None
            found.unsealed += not standing.sealed
            if standing.final and standing.effects_in_doubt:
                found.undecided.append(Undecided(name, standing.run, standing.outcome or "", standing.effects_in_doubt))


# --- what is printed -------------------------------------------------------------------------------------------------


def as_object(verdict: AuditVerdict, found: Audit) -> dict[str, Any]:
    """The report as JSON has it."""
    return {
        **verdicts.as_object(verdict),
        "logs": [
            {
                "tenant": None if log.name == STORE_LOG else log.name,
                "origin": log.origin,
                "size": log.size,
                "published": log.published,
                "unwitnessed": log.unwitnessed,
                "accepted": log.accepted,
                "cosigned_by": list(log.cosigned_by),
            }
            for log in found.logs
        ],
        "monitored_leaves": found.leaves,
        "extending_heads": found.heads,
        "verified_checkpoints": found.checkpoints,
        "undecided": [
            {
                "tenant": each.tenant,
                "run": each.run,
                "outcome": each.outcome,
                "effects_in_doubt": each.effects_in_doubt,
            }
            for each in found.undecided
        ],
        "unadmitted": found.unadmitted,
        "unsealed": found.unsealed,
    }


def print_text(output: Output, verdict: AuditVerdict, found: Audit) -> None:
    """Print the report for people."""
    from sealbook.cli.screen.safe import safe

    verdicts.print_text(output, verdict)
    parts = [
        f"{counted(found.leaves, 'leaf', 'leaves')} by a monitor's rules",
        f"{counted(found.heads, 'head')} as extending the one before",
        f"{counted(found.checkpoints, 'checkpoint')} by the policy",
    ]
    output.line(f"also checked: {', '.join(parts)}")
    for log in found.logs:
        public = "nothing of it is published" if log.published is None else f"published up to {log.published}"
        by = f", cosigned by {', '.join(map(safe, log.cosigned_by))}" if log.cosigned_by else ""
        output.line(f"log {safe(log.origin)}: size {log.size}, {public}{by}")
    for each in found.undecided[:UNDECIDED_SHOWN]:
        doubt = counted(each.effects_in_doubt, "effect")
        place = f"tenant {safe(each.tenant)}, run {safe(each.run)}"
        output.line(output.paint(f"undecided: {place}: ended {safe(each.outcome)} with {doubt} in doubt", "yellow"))
    if len(found.undecided) > UNDECIDED_SHOWN:
        output.line(f"and {len(found.undecided) - UNDECIDED_SHOWN} more such runs: -o json has them all")
    output.line(f"runs: {found.unsealed} not sealed, {found.unadmitted} that nobody admitted")
