"""`run`: one run's story, from where it stands to its last record; or its family."""

from __future__ import annotations

from pathlib import Path

import click

from sealbook.cli.ground import file_output
from sealbook.cli.ground.file_output import file_option
from sealbook.cli.ground.options import Verb, format_option, run_argument
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.records import objects
from sealbook.cli.records.printer import Look, Printer
from sealbook.cli.records.record_lines import encode
from sealbook.cli.selecting.paging import pages, run_records
from sealbook.cli.stories import telling
from sealbook.cli.stories.family import family
from sealbook.cli.stories.story import Story
from sealbook.cli.stories.telling import Public, Told
from sealbook.journal import Effect, InclusionProof, NotFound, Tenant
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.entry import LeafEntry
from sealbook.merkle.note import Note
from sealbook.merkle.verify import verify_inclusion


@click.command(
    "run",
    cls=Verb,
    examples=(
        "sealbook run order-42",
        "sealbook run order-42 --tree",
        "sealbook run order-42 -o json",
        "sealbook run order-45 -o records --to order-45.records",
    ),
)
@run_argument
@click.option("--tree", is_flag=True, help="The runs that it came from, and those that came from them, instead.")
@file_option("With -o records: the file; otherwise they are printed.")
@format_option("short", "json", "records")
@pass_setup
def command(setup: Setup, run: str, tree: bool, target: Path | None, form: str) -> None:
    """Tell one run's story: where it stands, its epochs, conclusion, leaf, proof and signatures, each attempt of its
    effects, then its records, with the waits, silences and takeovers between them.

    The proof that the log holds the run's leaf is made and verified; what the records say is not derived again: that
    does `sealbook verify RUN`. With --tree every run's first record is read, for the parent or fork that it names.

    As json, the first line is the run with all that, and each further line a record; with --tree each line is a run.
    As records, each line is a record with the exact bytes that its hash covers: what `sealbook verify --proof` takes.
    """
    if form == "records":
        if tree:
            raise click.UsageError("--tree has no records: -o is short or json")
        _write_records(setup, run, target)
        return
    if target is not None:
        raise click.UsageError("--to is for -o records")
    if tree:
        _print_family(setup, run, form)
    else:
        _print_story(setup, run, form)


def _print_story(setup: Setup, run: str, form: str) -> None:
    with setup.reading() as tenant:
        told = _told(tenant, run)
        records = run_records(tenant, run, last=told.standing.records)
        with setup.output(paged=True) as output:
            if form == "json":
                output.line(objects.text(telling.as_object(told)))
                Printer(output, Look("json", everything=True)).show_all(records)
            else:
                telling.print_header(output, told)
                printer = Printer(output, Look("short-delta", with_run=False))
                telling.print_timeline(output, printer, told.story, records)


def _told(tenant: Tenant, run: str) -> Told:
    standing = tenant.standing(run)
    if standing is None:
        raise NotFound("run", run)
    story = Story()
    for record in run_records(tenant, run, last=standing.records):
        story.add(record)
    leaf = tenant.inclusion_proof(run)
    if leaf is not None:
        _check(leaf)
    return Told(standing, ordered_effects(tenant, run), leaf, tenant.cancellation(run), story, _public(tenant))


def _check(leaf: InclusionProof) -> None:
    """The proof must lead to the log's root; `VerificationError` when it does not."""
    if leaf.inner is not None and leaf.inner_entry is not None:
        leaf.inner.verify(LeafEntry.decode(leaf.inner_entry))
    verify_inclusion(leaf=leaf.leaf_hash, index=leaf.index, size=leaf.size, proof=leaf.proof, root=leaf.root)


def _public(tenant: Tenant) -> Public | None:
    """How far the tenant's log was published; None before its first checkpoint."""
    note = tenant.published_checkpoint()
    if note is None:
        return None
    size = Checkpoint.parse(Note.parse(note).text).size
    kept = tenant.signed_checkpoint(size)
    return Public(size, kept is not None and not kept.without_quorum)


def _print_family(setup: Setup, run: str, form: str) -> None:
    with setup.reading() as tenant:
        if tenant.standing(run) is None:
            raise NotFound("run", run)
        with setup.output(paged=True) as output:
            if form == "json":
                for member in family(tenant, run):
                    output.line(objects.text({"tenant": tenant.name, **telling.family_object(member)}))
            else:
                telling.print_family(output, family(tenant, run), run)


def _write_records(setup: Setup, run: str, target: Path | None) -> None:
    with setup.reading() as tenant:
        if tenant.standing(run) is None:
            raise NotFound("run", run)
        with file_output.opened(target) as stream:
            for record in run_records(tenant, run):
                stream.write(encode(record.prev, record.hash, record.signature, record.body))


def ordered_effects(tenant: Tenant, run: str) -> list[Effect]:
    """The run's effects in the order in which their latest attempts started."""
    found = pages(lambda after, limit: tenant.effects(run, after=after, limit=limit))
    return sorted(found, key=lambda effect: effect.start_seq)
