"""`bundle`: check evidence, and look into it, without a store and without a network."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from sealbook.cli.auditing import bundles
from sealbook.cli.auditing.bundles import SELECTION_PROVES, WHOLE_PROVES, public_half
from sealbook.cli.ground import exit_codes
from sealbook.cli.ground.options import Verb, VerbGroup, format_option
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.offline import proofs
from sealbook.cli.publishing import policy_file
from sealbook.cli.records import lines, objects
from sealbook.cli.records.lines import RecordLines, data_text
from sealbook.cli.screen import progress
from sealbook.cli.screen.output import Output
from sealbook.cli.screen.safe import cut, safe
from sealbook.cli.screen.words import counted
from sealbook.journal import NotFound
from sealbook.journal.bundle.faults import named
from sealbook.journal.bundle.reader import Bundle
from sealbook.journal.bundle.records import Believed, shown_data
from sealbook.journal.bundle.verdict import Verdict
from sealbook.journal.bundle.verdict import verify as verdict_on
from sealbook.journal.errors import printable
from sealbook.journal.records import names
from sealbook.journal.records.trust import Outside, Trust
from sealbook.merkle.errors import Malformed
from sealbook.merkle.policy import Policy

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
FINDINGS_SHOWN = 20  # of a damaged bundle; `-o json` has all of them
BUNDLE = click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True)
STANDARD_INPUT = Path("-")
file_argument = click.argument("file", metavar="FILE", type=BUNDLE)


@contextmanager
def opened(file: Path) -> Iterator[BinaryIO]:
    """The bundle; with - what standard input has, kept in a file that has no name."""
    if file != STANDARD_INPUT:
        with file.open("rb") as stream:
            yield stream
        return
    with tempfile.TemporaryFile() as stream:
        shutil.copyfileobj(sys.stdin.buffer, stream)
        stream.seek(0)
        yield stream


@click.group("bundle", cls=VerbGroup)
def command() -> None:
    """Check a bundle that `sealbook export` wrote, and look into it, without a store and without a network.

    With - for FILE, the bundle is read from standard input.
    """


@command.command(
    "verify",
    cls=Verb,
    examples=(
        "sealbook bundle verify evidence.sealbook-bundle",
        "sealbook bundle verify evidence.sealbook-bundle --checkpoint seen-in-march.txt --checkpoint seen-in-may.txt",
        "sealbook bundle verify evidence.sealbook-bundle --policy policy.txt --keys signers.txt",
    ),
)
@file_argument
@click.option(
    "--checkpoint",
    "checkpoints",
    type=FILE,
    multiple=True,
    metavar="FILE",
    help="A checkpoint from elsewhere that the log must agree with; may be given more than once.",
)
@click.option("--policy", type=FILE, metavar="FILE", help="Which logs and witnesses count: a tlog-policy.")
@click.option("--max-age", metavar="AGE", help="The quorum's cosignatures must be no older: 3600, 90m, 24h, 7d.")
@click.option("--keys", type=FILE, metavar="FILE", help="Public keys of record signers in hex, one per line.")
@click.option("--require-signatures", is_flag=True, help="A record that is not signed is a finding.")
@click.option("--strict", is_flag=True, help="Exit with 1 if anything was not checked.")
@format_option("short", "json")
@pass_setup
def verify(
    setup: Setup,
    file: Path,
    checkpoints: tuple[Path, ...],
    policy: Path | None,
    max_age: str | None,
    keys: Path | None,
    require_signatures: bool,
    strict: bool,
    form: str,
) -> int:
    """Check every byte of a bundle: hashes, chains, signatures, leaves, roots, proofs, counts, and its digest.

    Each --checkpoint is a constraint of its own: where the bundle holds that log it must agree, and a log that is
    shorter is a finding. Keys that the bundle names are its exporter's claim: nothing is checked with them, and each is
    marked as one that --keys or --policy brought too, or not.

    What was not checked is listed as prominently as what was found.

    Exit codes: 0 sound, 1 records of a newer version, or anything unchecked under --strict, 3 damaged or contradicted,
    6 no bundle, or one of a newer version.
    """
    trust, known, age = _brought(checkpoints, policy, max_age, keys, require_signatures)
    with opened(file) as stream, named(stream), progress.shown("verifying", quiet=setup.quiet) as report:
        size = os.fstat(stream.fileno()).st_size
        told = None if report is None else lambda: report(stream.tell(), size)
        now = int(time.time())
        verdict = verdict_on(stream, trust, policy=known, age_seconds_max=age, now=now, progress=told)
    with setup.output() as output:
        if form == "json":
            name = str(file).encode("utf-8", "backslashreplace").decode()
            output.line(objects.text(bundles.as_object(name, verdict)))
        else:
            _print(output, file, verdict)
    if not verdict.sound:
        return exit_codes.INTEGRITY
    if verdict.newer or (strict and verdict.not_checked):
        return exit_codes.INCOMPLETE
    return exit_codes.OK


def _brought(
    checkpoints: tuple[Path, ...], policy: Path | None, max_age: str | None, keys: Path | None, required: bool
) -> tuple[Trust, Policy | None, int | None]:
    """What the auditor brings. What is wrong with it is told apart from what is wrong with the bundle."""
    known, signers, age = None, None, None
    outside: list[Outside] = []
    source: object = "--max-age"
    try:
        if max_age is not None:
            age = proofs.parse_age(max_age)
        if policy is not None:
            source = policy
            known = policy_file.parse(policy.read_bytes())
        if keys is not None:
            source = keys
            signers = bundles.parse_signers(keys.read_bytes())
        for source in checkpoints:
            outside.append(bundles.parse_anchor(str(source), source.read_bytes(), known))
    except Malformed as error:
        raise click.ClickException(f"{source}: {error}") from error
    if age is not None and (known is None or known.quorum is None):
        raise click.UsageError("--max-age needs a --policy with witnesses, who alone state a time")
    return Trust(outside, signers, required), known, age


def _print(output: Output, file: Path, verdict: Verdict) -> None:
    header, totals = verdict.header, verdict.totals
    if verdict.sound and header is not None and totals is not None:
        proves = WHOLE_PROVES if header.whole else SELECTION_PROVES
        output.line(output.paint(f"{safe(str(file))}: sound: {proves}", "green"))
        words = [counted(totals.tenants, "tenant"), counted(totals.runs, "run"), counted(totals.records, "record")]
        output.line(f"{', '.join(words)}, {counted(verdict.signed, 'signature')}, {counted(verdict.proven, 'proof')}")
        output.line(f"left out: {', '.join(map(safe, header.left_out)) or 'nothing'}")
    else:
        incomplete = any(fault.incomplete for fault in verdict.faults)
        word = "incomplete" if incomplete else f"damaged: {counted(len(verdict.faults), 'finding')}"
        output.line(output.paint(f"{safe(str(file))}: {word}", "red", "bold"))
    for fault in verdict.faults[:FINDINGS_SHOWN]:
        output.line(output.paint(safe(str(fault)), "red"))
    if len(verdict.faults) > FINDINGS_SHOWN:
        output.line(f"and {len(verdict.faults) - FINDINGS_SHOWN} more: -o json has them all")
    for claim in verdict.claims:
        word = "brought by you too" if claim.brought else "claimed by the exporter, not trusted"
        output.line(f"key: {claim.key.purpose} {safe(claim.key.name)}: {safe(public_half(claim.key))}: {word}")
    for line in verdict.not_checked:
        output.line(output.paint(f"not checked: {safe(line)}", "bold"))


@command.command("list", cls=Verb, examples=("sealbook bundle list evidence.sealbook-bundle",))
@file_argument
@format_option("short", "json")
@pass_setup
def list_(setup: Setup, file: Path, form: str) -> None:
    """List the runs of a bundle: how many records each has, how it ended, and which leaf attests it.

    The bundle is checked as it is read: what a damaged one holds up to the damage is not listed.
    """
    with opened(file) as stream, named(stream), setup.output(paged=True) as output:
        found = bundles.listing(stream)
        if form == "json":
            for item in found:
                output.line(objects.text(item))
            return
        headings = ("TENANT", "RUN", "RECORDS", "LAST", "LAST KIND", "OUTCOME", "LEAF")
        rows = (
            [
                (cut(safe(str(item[name] if item[name] is not None else lines.BLANK)), lines.COLUMN_COLUMNS_MAX), ())
                for name in ("tenant", "run", "records", "last_at", "last_kind", "outcome", "leaf")
            ]
            for item in found
        )
        lines.table(output, headings, rows)


@command.command(
    "show",
    cls=Verb,
    examples=(
        "sealbook bundle show evidence.sealbook-bundle",
        "sealbook bundle show evidence.sealbook-bundle --run order-42 -o json",
    ),
)
@file_argument
@click.option("--run", "runs", multiple=True, metavar="RUN", help="Only records of this run.")
@click.option("-a", "--all", "everything", is_flag=True, help="Records of more than 64 KiB whole, not their members.")
@format_option("short", "json", "cat")
@pass_setup
def show(setup: Setup, file: Path, runs: tuple[str, ...], everything: bool, form: str) -> None:
    """Print the records of a bundle in the order of their arrival, as `sealbook show` prints those of a store.

    Each is checked before it is printed; damage ends the listing with exit code 3. Of a record of more than 64 KiB only
    the members that the store reads are shown, and how much was left out, unless -a is given.
    """
    now = time.time_ns() // 1_000_000
    missing = dict.fromkeys(names.check_run(run) for run in runs)
    with opened(file) as stream, named(stream), setup.output(paged=True) as output:
        table = RecordLines(output)
        for item in Bundle(stream).items():
            if not isinstance(item.value, Believed) or (runs and item.value.run not in runs):
                continue
            missing.pop(item.value.run, None)
            record = item.value.record
            if record is None:
                setup.remark(f"run {item.value.run} record {item.value.seq} is of a newer version and is not shown")
                continue
            record = record._replace(data=shown_data(record, whole=everything))
            if form == "json":
                output.line(objects.text(objects.record(record)))
            elif form == "cat":
                output.line(data_text(record.data))
            else:
                table.add(record, now_ms=now)
        table.flush()
    for run in missing:
        raise NotFound(f"record in {printable(str(file))} of run", run)
