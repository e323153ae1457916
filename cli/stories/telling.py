"""A run's story for people: where it stands, its attempts of effects, its epochs, its records and what lies between.

And the same as JSON, but for the records. `Told` is all that is told of a run beside its records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sealbook.cli.records import lines, objects
from sealbook.cli.screen.safe import cut, safe
from sealbook.cli.screen.words import counted, span
from sealbook.cli.stories import story as stories
from sealbook.cli.stories.story import Story
from sealbook.journal.records import instants

if TYPE_CHECKING:
    from sealbook.cli.records.printer import Printer
    from sealbook.cli.screen.output import Output
    from sealbook.cli.stories.family import Member
    from sealbook.indexes.standing import Standing
    from sealbook.journal import Cancellation, Effect, InclusionProof, Record

_STYLES = {"failed": ("red",), "did-not-happen": ("red",), "started": ("yellow",)}


@dataclass(frozen=True, slots=True)
class Public:
    """How far the log of the run has been published: up to `size` leaves, and whether its witnesses sufficed."""

    size: int
    with_quorum: bool


@dataclass(frozen=True, slots=True)
class Told:
    """Where a run stands, its effects, its leaf with the proof that was verified, who asked that it be cancelled, what
    its records tell, and how far its log is public."""

    standing: Standing
    effects: list[Effect]
    leaf: InclusionProof | None
    cancellation: Cancellation | None
    story: Story
    public: Public | None

    @property
    def witnessed(self) -> bool:
        """Whether a published checkpoint that has its quorum covers the leaf."""
        return (
            self.leaf is not None
            and self.public is not None
            and self.public.with_quorum
            and self.leaf.index < self.public.size
        )


def as_object(told: Told) -> dict[str, Any]:
    """The story as JSON has it."""
    found: dict[str, Any] = objects.run(told.standing)
    leaf, public = told.leaf, told.public
    found["leaf"] = found["proof"] = None
    if leaf is not None:
        found["leaf"] = {
            "leaf_kind": leaf.leaf_kind,
            "index": leaf.index,
            "seq": leaf.seq,
            "head": leaf.head.hex(),
            "leaf_hash": bytes(leaf.leaf_hash).hex(),
        }
        found["proof"] = {
            "size": leaf.size,
            "root": leaf.root.hex(),
            "published": None if public is None else public.size,
            "witnessed": told.witnessed,
        }
    found["cancellation"] = None if told.cancellation is None else objects.cancellation(told.cancellation)
    found["effect_list"] = [objects.effect(told.standing.tenant, effect) for effect in told.effects]
    return found | stories.as_object(told.story)


# --- for people ------------------------------------------------------------------------------------------------------


def print_header(output: Output, told: Told) -> None:
    """Print what is told before the records."""
    standing, story = told.standing, told.story
    word, styles = lines.standing_word(standing)
    items = [
        ("run", f"{safe(standing.run)} of tenant {safe(standing.tenant)}"),
        ("case", safe(standing.case or lines.BLANK)),
        ("source", safe(standing.source or lines.BLANK)),
        ("standing", output.paint(word, *styles)),
        ("records", f"{standing.records}, arrivals {standing.first_arrival} to {standing.last_arrival}"),
        ("updated", instants.of_millis(standing.updated_at)),
        ("lease", lines.lease_words(standing.owner, standing.epoch, standing.expires_at)),
        ("epochs", _epochs(story)),
        ("concluded", _conclusion(story)),
        ("head", standing.head.hex()),
        ("leaf", _leaf(told)),
        ("proof", _proof(told)),
        ("signed", _signatures(story)),
    ]
    if told.cancellation is not None:
        asked = told.cancellation
        words = f"{safe(asked.actor)} ({asked.basis}): {safe(asked.reason)}"
        items.append(("cancel", output.paint(f"{instants.of_millis(asked.at)} {words}", "yellow")))
    lines.pairs(output, items)
    if story.attempts:
        output.line()
        _print_attempts(output, story)
    output.line()


def print_timeline(output: Output, printer: Printer, story: Story, records: Iterable[Record]) -> None:
    """Print the records, with waits, silences and takeovers told where they were."""
    waits = {wait.ended_seq: wait for wait in story.waits if wait.ended_seq is not None}
    before: Record | None = None
    for record in records:
        for what, words in stories.interludes(before, record, waits):
            printer.flush()
            style = ("yellow", "bold") if what == "takeover" else ("dim",)
            output.line(output.paint(f"    ~ {safe(words)}", *style))
        printer.show(record)
        before = record
    printer.flush()


def print_family(output: Output, members: Iterable[Member], run: str) -> None:
    """Print a family of runs as a tree, with the run in bold."""
    for member in members:
        name = cut(safe(member.run), lines.COLUMN_COLUMNS_MAX)
        words = [output.paint(name, "bold") if member.run == run else name]
        if member.standing is None:
            words.append(output.paint("not in this store", "yellow"))
        else:
            word, styles = lines.standing_word(member.standing)
            words += [output.paint(word, *styles), counted(member.standing.records, "record")]
        if member.descent is not None and member.descent.how == "forked":
            at = "" if member.descent.seq is None else f" at record {member.descent.seq}"
            words.append(f"forked{at}")
        if member.circular:
            words.append(output.paint("named again: the records go in a circle", "red"))
        branch = f"{'   ' * (member.depth - 1)}└─ " if member.depth else ""
        output.line(f"{branch}{'  '.join(words)}")


def family_object(member: Member) -> dict[str, Any]:
    """A member of a family as JSON has it."""
    came, standing = member.descent, member.standing
    return {
        "run": member.run,
        "depth": member.depth,
        "came_from": None if came is None else came.run,
        "how": None if came is None else came.how,
        "forked_at": None if came is None else came.seq,
        "present": standing is not None,
        "records": None if standing is None else standing.records,
        "outcome": None if standing is None else standing.outcome,
        "circular": member.circular,
    }


def _epochs(story: Story) -> str:
    parts = [
        f"{each.epoch} (record {each.first_seq})"
        if each.first_seq == each.last_seq
        else f"{each.epoch} (records {each.first_seq} to {each.last_seq})"
        for each in story.epochs[:8]
    ]
    if len(story.epochs) > 8:
        parts.append(f"and {len(story.epochs) - 8} more")
    return f"{', '.join(parts)}: {counted(story.takeovers, 'takeover')}"


def _conclusion(story: Story) -> str:
    record = story.conclusion
    if record is None:
        return lines.BLANK
    return f"{safe(str(record.data.get('outcome')))} by record {record.seq}, {instants.of_millis(record.at)}"


def _leaf(told: Told) -> str:
    leaf = told.leaf
    if leaf is None:
        return lines.BLANK
    above = told.standing.records - leaf.seq
    after = f", {counted(above, 'record')} after it" if above else ""
    return f"{leaf.leaf_kind} of record {leaf.seq} at log position {leaf.index}{after}"


def _proof(told: Told) -> str:
    leaf, public = told.leaf, told.public
    if leaf is None:
        return "none: no leaf of the log attests this run"
    holds = f"holds, to root {leaf.root.hex()[:16]} of size {leaf.size}"
    if public is None or leaf.index >= public.size:
        return f"{holds}; no published checkpoint covers it"
    return f"{holds}; published up to {public.size}{'' if public.with_quorum else ', without its quorum'}"


def _signatures(story: Story) -> str:
    signed = sum(story.signers.values())
    if not signed:
        return "no record is signed"
    by = ", ".join(f"{signer.hex()[:16]} ({count})" for signer, count in story.signers.items())
    return f"{signed} of {signed + story.unsigned} records, by {by}: `sealbook verify RUN` checks them"


def _print_attempts(output: Output, story: Story) -> None:
    headings = ("EFFECT", "NAME", "ATTEMPT", "STATUS", "RECOVERY", "RECORDS", "TOOK", "AFTER")
    latest = {each.effect: each.attempt for each in story.attempts}
    rows = []
    for each in story.attempts:
        ended = each.ended_at
        rows.append(
            [
                (each.effect.hex()[: lines.KEY_DIGITS], ()),
                (cut(safe(each.name or lines.BLANK), lines.COLUMN_COLUMNS_MAX), ()),
                (str(each.attempt), ()),
                (_status(each, latest[each.effect]), _STYLES.get(each.status, ())),
                (safe(each.recovery), ()),
                (f"{each.start_seq}, {lines.BLANK if each.end_seq is None else each.end_seq}", ()),
                (lines.BLANK if ended is None else span(ended - each.started_at), ()),
                (lines.BLANK if each.gap_ms is None else span(each.gap_ms), ()),
            ]
        )
    lines.table(output, headings, rows)


def _status(attempt: stories.Attempt, latest: int) -> str:
    if attempt.status != "started":
        return safe(attempt.status)
    return "in doubt" if attempt.attempt == latest else "no end recorded"
