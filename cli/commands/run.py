"""`run`: one run's story, from where it stands to its last record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sealbook.cli.commands.show import Printer
from sealbook.cli.file_output import file_option
from sealbook.cli.options import Verb, format_option, run_argument
from sealbook.cli.setup import Setup, pass_setup

if TYPE_CHECKING:
    from sealbook.cli.rendering.output import Output
    from sealbook.indexes.standing import Standing
    from sealbook.journal import Cancellation, Effect, InclusionProof, Tenant


@click.command(
    "run",
    cls=Verb,
    examples=(
        "sealbook run order-42",
        "sealbook run order-42 -o json",
        "sealbook run order-45 -o records --to order-45.records",
    ),
)
@run_argument
@file_option("With -o records: the file; otherwise they are printed.")
@format_option("short", "json", "records")
@pass_setup
def command(setup: Setup, run: str, target: Path | None, form: str) -> None:
    """Tell one run's story: where it stands, its lease, leaf and cancellation, its effects, then its records.

    As json, the first line is the run with its effects, leaf and cancellation, and each further line a record.
    As records, each line is a record with the exact bytes that its hash covers: what `sealbook verify --proof` takes.
    """
    from sealbook.cli.selection import run_records
    from sealbook.journal import NotFound

    if form == "records":
        _write_records(setup, run, target)
        return
    if target is not None:
        raise click.UsageError("--to is for -o records")
    with setup.reading() as tenant:
        standing = tenant.standing(run)
        if standing is None:
            raise NotFound("run", run)
        effects = ordered_effects(tenant, run)
        leaf = tenant.inclusion_proof(run)
        cancellation = tenant.cancellation(run)
        with setup.output(paged=True) as output:
            if form == "json":
                _print_object(output, standing, effects, leaf, cancellation)
            else:
                _print_header(output, standing, effects, leaf, cancellation)
            Printer(output, form, with_run=False).show_all(run_records(tenant, run))


def _write_records(setup: Setup, run: str, target: Path | None) -> None:
    from sealbook.cli import file_output
    from sealbook.cli.record_lines import encode
    from sealbook.cli.selection import run_records
    from sealbook.journal import NotFound

    with setup.reading() as tenant:
        if tenant.standing(run) is None:
            raise NotFound("run", run)
        with file_output.opened(target) as stream:
            for record in run_records(tenant, run):
                stream.write(encode(record.prev, record.hash, record.signature, record.body))


def ordered_effects(tenant: Tenant, run: str) -> list[Effect]:
    """The run's effects in the order in which their latest attempts started."""
    from sealbook.cli.selection import pages

    found = pages(lambda after, limit: tenant.effects(run, after=after, limit=limit))
    return sorted(found, key=lambda effect: effect.start_seq)


def _print_object(
    output: Output,
    standing: Standing,
    effects: list[Effect],
    leaf: InclusionProof | None,
    cancellation: Cancellation | None,
) -> None:
    from sealbook.cli.rendering import objects

    story: dict[str, Any] = objects.run(standing)
    story["leaf"] = None
    if leaf is not None:
        story["leaf"] = {
            "leaf_kind": leaf.leaf_kind,
            "index": leaf.index,
            "seq": leaf.seq,
            "head": leaf.head.hex(),
            "leaf_hash": bytes(leaf.leaf_hash).hex(),
        }
    story["cancellation"] = None if cancellation is None else objects.cancellation(cancellation)
    story["effect_list"] = [objects.effect(standing.tenant, effect) for effect in effects]
    output.line(objects.text(story))


def _print_header(
    output: Output,
    standing: Standing,
    effects: list[Effect],
    leaf: InclusionProof | None,
    cancellation: Cancellation | None,
) -> None:
    from sealbook.cli.commands.effects import print_table
    from sealbook.cli.rendering import lines
    from sealbook.cli.rendering.safe import safe
    from sealbook.journal import instants

    word, styles = lines.standing_word(standing)
    items = [
        ("run", f"{safe(standing.run)} of tenant {safe(standing.tenant)}"),
        ("case", safe(standing.case or lines.BLANK)),
        ("source", safe(standing.source or lines.BLANK)),
        ("standing", output.paint(word, *styles)),
        ("records", f"{standing.records}, arrivals {standing.first_arrival} to {standing.last_arrival}"),
        ("updated", instants.of_millis(standing.updated_at)),
        ("lease", lease_words(standing.owner, standing.epoch, standing.expires_at)),
        ("head", standing.head.hex()),
        (
            "leaf",
            lines.BLANK if leaf is None else f"{leaf.leaf_kind} of record {leaf.seq} at log position {leaf.index}",
        ),
    ]
    if cancellation is not None:
        words = f"{safe(cancellation.actor)} ({cancellation.basis}): {safe(cancellation.reason)}"
        items.append(("cancel", output.paint(f"{instants.of_millis(cancellation.at)} {words}", "yellow")))
    lines.pairs(output, items)
    if effects:
        output.line()
        print_table(output, effects, with_run=False)
    output.line()


def lease_words(owner: str | None, epoch: int, expires_at: int | None) -> str:
    """A lease in words."""
    from sealbook.cli.rendering.safe import safe
    from sealbook.journal import instants

    if owner is None or expires_at is None:
        return f"free, epoch {epoch}"
    return f"{safe(owner)} under epoch {epoch} until {instants.of_millis(expires_at)}"
