"""`lease`: who may append to a run."""

from __future__ import annotations

import click

from sealbook.cli.ground.options import Verb, VerbGroup, epoch_option, format_option, run_argument
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.records import lines, objects
from sealbook.cli.screen.output import Output
from sealbook.cli.screen.safe import safe
from sealbook.journal import Lease, NotFound, Tenant
from sealbook.journal.errors import printable

owner_option = click.option("--owner", required=True, metavar="NAME", help="Who holds the lease; shown to people.")
ttl_option = click.option("--ttl", type=float, required=True, metavar="S", help="Seconds until it expires, 1 or more.")


@click.group("lease", cls=VerbGroup)
def command() -> None:
    """Who may append to a run: a lease has an owner, an expiry, and an epoch that fences every earlier one."""


@command.command("acquire", cls=Verb, examples=("sealbook lease acquire order-42 --owner worker-1 --ttl 30",))
@run_argument
@owner_option
@ttl_option
@format_option("short", "json")
@pass_setup
def acquire(setup: Setup, run: str, owner: str, ttl: float, form: str) -> None:
    """Take the run's lease under a new epoch, unless somebody holds it."""
    with setup.writing() as tenant:
        lease = tenant.acquire(run, owner=owner, ttl=ttl)
    with setup.report(f"the lease of {printable(run)} was taken") as output:
        _print(output, lease, form)


@command.command("renew", cls=Verb, examples=("sealbook lease renew order-47 --owner worker-1 --epoch 1 --ttl 30",))
@run_argument
@owner_option
@epoch_option("The lease's epoch.", required=True)
@ttl_option
@format_option("short", "json")
@pass_setup
def renew(setup: Setup, run: str, owner: str, epoch: int, ttl: float, form: str) -> None:
    """Extend a live lease to this many seconds from now."""
    with setup.writing() as tenant:
        _check_known(tenant, run)
        lease = tenant.renew(Lease(tenant.name, run, owner, epoch, None), ttl=ttl)
    with setup.report(f"the lease of {printable(run)} was renewed") as output:
        _print(output, lease, form)


@command.command("release", cls=Verb, examples=("sealbook lease release order-47 --epoch 1",))
@run_argument
@epoch_option("The lease's epoch.", required=True)
@format_option("short", "json")
@pass_setup
def release(setup: Setup, run: str, epoch: int, form: str) -> None:
    """Give the lease back, so that others need not wait. One that is not under this epoch is left alone."""
    with setup.writing() as tenant:
        _check_known(tenant, run)
        tenant.release(Lease(tenant.name, run, None, epoch, None))
        lease = tenant.lease(run)
    if lease is None:
        setup.remark(f"{run} has no lease")
        return
    if lease.epoch != epoch:
        setup.remark(f"{run} was left alone: its epoch is {lease.epoch}, not {epoch}")
    with setup.report(f"the lease of {printable(run)} is not under epoch {epoch} any more") as output:
        _print(output, lease, form)


@command.command(
    "force",
    cls=Verb,
    examples=("sealbook lease force order-47 --actor ada --reason 'worker-1 is gone'",),
)
@run_argument
@click.option("--actor", required=True, metavar="NAME", help="Who does this; it is recorded.")
@click.option("--reason", required=True, metavar="TEXT", help="Why; it is recorded.")
@format_option("short", "json")
@pass_setup
def force(setup: Setup, run: str, actor: str, reason: str, form: str) -> None:
    """Fence whoever holds the lease and leave it free. The act is recorded in the run ~tenant."""
    with setup.writing() as tenant:
        lease = tenant.force_lease(run, actor=actor, reason=reason)
    with setup.report(f"the lease of {printable(run)} was forced") as output:
        _print(output, lease, form)


@command.command("show", cls=Verb, examples=("sealbook lease show order-47",))
@run_argument
@format_option("short", "json")
@pass_setup
def show(setup: Setup, run: str, form: str) -> None:
    """Print the run's lease as it is recorded, expired or not. A run never leased, or sealed, has none."""
    with setup.reading(to_come=True) as tenant:  # one that has leases and no record yet has no row of its own
        lease = tenant.lease(run)
    if lease is None:
        raise NotFound("lease of run", run)
    with setup.output() as output:
        _print(output, lease, form)


def _check_known(tenant: Tenant, run: str) -> None:
    """`NotFound` for a run that has neither a record nor a lease, such as one that is misspelt."""
    if tenant.lease(run) is None and tenant.standing(run) is None:
        raise NotFound("run", run)


def _print(output: Output, lease: Lease, form: str) -> None:
    if form == "json":
        output.line(objects.text(objects.lease(lease)))
    else:
        output.line(f"{safe(lease.run)}: {lines.lease_words(lease.owner, lease.epoch, lease.expires_at)}")
