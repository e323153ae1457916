"""`export`: write evidence that is checked elsewhere, or records for other tools."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sealbook.cli.ground.file_output import check_place, opened
from sealbook.cli.ground.options import Verb, format_option, range_options
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.publishing import policy_file
from sealbook.cli.records import objects
from sealbook.cli.screen import progress
from sealbook.cli.screen.safe import safe
from sealbook.cli.screen.words import counted
from sealbook.cli.selecting import exporting
from sealbook.cli.selecting.selection import Selection
from sealbook.journal import NotFound
from sealbook.journal.bundle.container import Codec
from sealbook.journal.bundle.frames import ClaimedKey
from sealbook.journal.exporting import export
from sealbook.journal.exporting.bundle import Exported
from sealbook.journal.exporting.file import Resumed, export_to
from sealbook.journal.exporting.question import Question
from sealbook.journal.keys.ring import Keyring
from sealbook.journal.records.instants import of_millis

NOTHING_IN_SPAN = "no record lies between --since and --until: what was written holds none"


@click.command(
    "export",
    cls=Verb,
    examples=(
        "sealbook export --to evidence.sealbook-bundle",
        "sealbook export --all-tenants --to everything.sealbook-bundle",
        "sealbook export --run order-42 --run order-45 --to two-runs.sealbook-bundle",
        "sealbook export --case case-7 --compress lzma --to case-7.sealbook-bundle",
        "sealbook export --since 2026-11-01T00:00:00Z --until 2026-11-30T23:59:59Z --to november.sealbook-bundle",
        "sealbook export --format jsonl --to records.jsonl",
        "sealbook export --format otlp --run order-42 --to traces.json",
    ),
)
@click.option("--run", "runs", multiple=True, metavar="RUN", help="This run, whole; may be given more than once.")
@click.option("--case", "cases", multiple=True, metavar="CASE", help="Every run that has a record of this case, whole.")
@range_options
@click.option("--all-tenants", is_flag=True, help="The whole store, instead of one tenant.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["bundle", "jsonl", "otlp"]),
    default="bundle",
    show_default=True,
    help="A bundle is evidence; lines of JSON and OTLP/JSON traces are for other tools.",
)
@click.option(
    "--compress",
    type=click.Choice(["zlib", "lzma", "plain"]),
    default="zlib",
    show_default=True,
    help="How the blocks are compressed.",
)
@click.option(
    "--keys",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Name the public keys of this folder that have to do with the bundle: signers, its logs, witnesses.",
)
@click.option(
    "--to",
    "target",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    required=True,
    metavar="FILE",
    help="The bundle's file, which is whole under its name or not there; - is standard output.",
)
@click.option("--restart", is_flag=True, help="Begin anew, whatever an export that was cut off has left of the bundle.")
@format_option("short", "json")
@pass_setup
def command(
    setup: Setup,
    runs: tuple[str, ...],
    cases: tuple[str, ...],
    since: int | None,
    until: int | None,
    all_tenants: bool,
    kind: str,
    compress: str,
    keys: Path | None,
    target: Path,
    restart: bool,
    form: str,
) -> None:
    """Write a bundle: records as their exact bytes, signatures, leaves or proofs, checkpoints, public keys, counts.

    Without a selection it holds a whole tenant, and a store can be restored from it. With --run, --case, --since or
    --until it holds those runs alone, whole, with a proof for each that has a leaf: it proves that they are in the log,
    and not that they are all there was.

    The same question to the same store gives the same bytes, save for the time at the beginning and the digest at the
    end. `sealbook bundle verify` checks it where no store is. Keys that --keys names are a claim, which tells a reader
    whose key an id is, and proves nothing until the same key comes from elsewhere.

    A bundle that was cut off - killed, interrupted, the disk full - stands as FILE.partial. The same command again goes
    on with it, under the time and the bounds of the first one: what came into the store meanwhile stays out. Instants
    that count from now, such as --since -2h, are others each time: write them out. What cannot be gone on with is
    refused and left there, and --restart begins anew. What goes to standard output, and what is no bundle, begins anew.
    """
    question = _question(setup, runs, cases, since, until, all_tenants)
    path = None if str(target) == "-" else target
    if keys is not None and kind != "bundle":
        raise click.UsageError("--keys is for bundles: lines for other tools name no keys")
    if restart and (kind != "bundle" or path is None):
        raise click.UsageError("--restart is for bundles that go to a file: all else begins anew")
    claimed = () if keys is None else _claimed(keys)
    if kind != "bundle":
        _write_lines(setup, question, kind, path)
        return
    if path is None and sys.stdout.isatty():
        raise click.UsageError("a bundle is no text for a terminal: name a file with --to")
    exported, resumed = _write_bundle(setup, question, path, Codec[compress.upper()], claimed, restart)
    _tell(setup, target, question, exported, form, printed=path is not None, resumed=resumed)


def _write_bundle(
    setup: Setup, question: Question, path: Path | None, codec: Codec, keys: Sequence[ClaimedKey], restart: bool
) -> tuple[Exported, bool]:
    """Write it, or what is left to write of it; and whether it was begun before."""
    begun: list[Resumed] = []

    def resumed(found: Resumed) -> None:
        begun.append(found)
        stand = counted(found.records, "record")
        setup.remark(f"going on with the export that was begun at {of_millis(found.made_at)}: {stand} stand already")

    now = time.time_ns() // 1_000_000
    with (
        setup.journal(readonly=True) as journal,
        progress.shown("exporting", quiet=setup.quiet) as report,
    ):
        if path is None or (path.exists() and not path.is_file()):
            with opened(path) as stream:
                return export(journal, stream, question, made_at=now, codec=codec, keys=keys, progress=report), False
        check_place(path)
        exported = export_to(
            journal,
            path,
            question,
            made_at=now,
            codec=codec,
            keys=keys,
            restart=restart,
            resumed=resumed,
            progress=report,
        )
    return exported, bool(begun)


def _question(
    setup: Setup,
    runs: tuple[str, ...],
    cases: tuple[str, ...],
    since: int | None,
    until: int | None,
    all_tenants: bool,
) -> Question:
    span = since is not None or until is not None
    if sum((bool(runs), bool(cases), span, all_tenants)) > 1:
        raise click.UsageError("a bundle holds runs, cases, a span of time, or all tenants: choose one of them")
    if all_tenants and setup.tenant_given:
        raise click.UsageError("--all-tenants takes every tenant, and --tenant names one: choose one of them")
    if all_tenants:
        return Question("store")
    if runs or cases:
        return Question("runs" if runs else "cases", setup.tenant, runs or cases)
    return Question("span" if span else "tenant", setup.tenant, since=since, until=until)


def _claimed(folder: Path) -> list[ClaimedKey]:
    """The public halves in this folder, and the witnesses of its policy: whose they are, as this folder says."""
    policy = policy_file.read(policy_file.default_path(folder))
    held = Keyring(folder).keys()
    claimed = [ClaimedKey(key.name, key.public_key, str(key.purpose), int(key.algorithm)) for key in held]
    for witness in () if policy is None else policy.witnesses:
        key = witness.key
        claimed.append(ClaimedKey(key.name, key.public_key, "witness", int(key.algorithm)))
    return claimed


def _write_lines(setup: Setup, question: Question, kind: str, path: Path | None) -> None:
    """Write what other tools read: records of the selection, or traces of its runs."""
    if question.what == "store":
        raise click.UsageError("--all-tenants is for bundles: lines for other tools are of one tenant")
    selections = {
        "runs": [Selection(run=run) for run in question.names],
        "cases": [Selection(case=case) for case in question.names],
    }.get(question.what, [Selection(since=question.since, until=question.until, scan=True)])
    with setup.reading() as tenant:
        for run in question.names if question.what == "runs" else ():
            if tenant.standing(run) is None:
                raise NotFound("run", run)
        for case in question.names if question.what == "cases" else ():
            if not tenant.case_history(case, limit=1):
                raise NotFound("case", case)
        with opened(path) as stream:
            lines = exporting.jsonl(tenant, selections) if kind == "jsonl" else exporting.otlp(tenant, selections)
            line = b""
            for line in lines:
                stream.write(line)
    if question.what == "span" and not line:
        setup.remark(NOTHING_IN_SPAN)


def _tell(
    setup: Setup, target: Path, question: Question, exported: Exported, form: str, *, printed: bool, resumed: bool
) -> None:
    """Say what was written; on standard error where the bundle itself went to standard output."""
    totals = exported.totals
    if question.what == "span" and not totals.runs:
        setup.remark(NOTHING_IN_SPAN)
    words = [counted(totals.tenants, "tenant"), counted(totals.runs, "run"), counted(totals.records, "record")]
    text = f"{safe(str(target))}: {', '.join(words)}, digest {exported.digest.hex()}"
    if not printed:
        setup.remark(text)
        return
    with setup.report("the bundle stands") as output:
        if form == "json":
            output.line(objects.text(_object(target, question, exported) | {"resumed": resumed}))
        elif not setup.quiet:
            output.line(text)


def _object(target: Path, question: Question, exported: Exported) -> dict[str, Any]:
    return {
        "file": str(target).encode("utf-8", "backslashreplace").decode(),
        "what": question.what,
        "tenants": exported.totals.tenants,
        "runs": exported.totals.runs,
        "records": exported.totals.records,
        "keys": exported.totals.keys,
        "digest": exported.digest.hex(),
    }
