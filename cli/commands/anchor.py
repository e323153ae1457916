"""`anchor`: bring an open run's head into the log, or those of all open runs under one leaf."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

from sealbook.cli.commands.seal import print_leaf
from sealbook.cli.ground.options import Verb, format_option
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.ground.times import duration
from sealbook.cli.records import objects
from sealbook.cli.screen.safe import safe
from sealbook.cli.screen.words import counted
from sealbook.journal import Journal


@click.command(
    "anchor",
    cls=Verb,
    examples=("sealbook anchor order-42", "sealbook anchor --open", "sealbook anchor --open --every 10m"),
)
@click.argument("run", metavar="[RUN]", required=False)
@click.option("--open", "all_open", is_flag=True, help="All open runs that have moved, under one leaf per tenant.")
@click.option("--every", type=duration, metavar="TIME", help="With --open: again and again, until SIGINT or SIGTERM.")
@format_option("short", "json")
@pass_setup
def command(setup: Setup, run: str | None, all_open: bool, every: int | None, form: str) -> None:
    """Bring an open run's head into the tenant's log, so that its records so far are covered by a proof.

    With --open it is every open run that has moved since the last time, of all tenants or of the one that --tenant
    names. However many they are, they cost a tenant one leaf, and nothing when none has moved.
    """
    if run is not None and all_open:
        raise click.UsageError("RUN and --open exclude each other: --open is for all open runs")
    if run is None and not all_open:
        raise click.UsageError("name a RUN, or --open for all of them")
    if every is not None and not all_open:
        raise click.UsageError("--every TIME goes with --open")
    if run is not None:
        with setup.writing() as tenant:
            leaf = tenant.anchor(run)
        print_leaf(setup, tenant.name, leaf, form)
        return
    with setup.journal(readonly=False) as journal, _until_stopped() as stopped:
        _anchor_open(setup, journal, form, stopped)
        while every is not None and not stopped.wait(every):
            _anchor_open(setup, journal, form, stopped)


def _anchor_open(setup: Setup, journal: Journal, form: str, stopped: threading.Event) -> None:
    """One round over the tenants."""
    leaves = 0
    with setup.report("what was anchored stands") as output:
        for tenant in [setup.known_tenant(journal)] if setup.tenant_given else map(journal.tenant, journal.tenants()):
            more = True
            while more and not stopped.is_set():
                batch = tenant.anchor_open()
                more = batch is not None and batch.more
                if batch is None:
                    continue
                leaves += 1
                if form == "json":
                    output.line(objects.text(objects.anchor_batch(tenant.name, batch)))
                else:
                    output.line(
                        f"{safe(tenant.name)}: anchor of {counted(batch.runs, 'open run')} up to arrival"
                        f" {batch.arrival} at log position {batch.index}"
                    )
    if not leaves:
        setup.remark("no open run has moved")


@contextmanager
def _until_stopped() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set, so that what is under way is finished first."""
    stopped = threading.Event()
    before = {number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
