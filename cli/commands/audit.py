"""`audit`: everything that can be asked of a whole store, in one report."""

from __future__ import annotations

from pathlib import Path

import click

from sealbook.cli.auditing import audit
from sealbook.cli.auditing.evidence import Desk, brought, desk_options, progress_option
from sealbook.cli.ground import isolation
from sealbook.cli.ground.options import Verb, format_option
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.records import objects
from sealbook.cli.screen import progress


@click.command(
    "audit",
    cls=Verb,
    examples=(
        "sealbook audit",
        "sealbook --store-origin example.com/store audit --policy policy.txt",
        "sealbook audit --checkpoint seen-in-march.txt --checkpoint seen-in-may.txt --policy policy.txt -o json",
    ),
)
@desk_options
@click.option("--strict", is_flag=True, help="Exit with 1 if anything was not checked.")
@progress_option
@format_option("text", "json")
@pass_setup
def command(
    setup: Setup,
    checkpoints: tuple[Path, ...],
    policy: Path | None,
    max_age: str | None,
    signers: Path | None,
    require_signatures: bool,
    strict: bool,
    progress_form: str,
    form: str,
) -> int:
    """Ask everything of the whole store that an auditor can: all tenants, all logs.

    What `sealbook verify` does at level deep; that the leaves of each log keep a monitor's rules; with --store-origin,
    that the heads of each tenant's log extend one another; with --policy, that what was published is signed and
    cosigned. It also names runs that ended for good with an effect in doubt, and says how much no witness has seen.
    The audit goes on past what it finds, and a store may be written to meanwhile.

    Exit codes as `sealbook verify`: 0 nothing was found, 3 something was, 1 records of a newer version were met, or,
    with --strict, anything was not checked.
    """
    if setup.tenant_given:
        raise click.UsageError("audit covers all tenants: leave --tenant and SEALBOOK_TENANT out")
    desk = brought(checkpoints, policy, max_age, signers, require_signatures)
    if setup.own_process:
        code = isolation.code_of_child(setup.folder)
        if code is not None:
            return code
    return _audit(setup, desk, strict, progress_form, form)


def _audit(setup: Setup, desk: Desk, strict: bool, progress_form: str, form: str) -> int:
    shown = progress.shown("auditing", quiet=setup.quiet, form=progress_form)
    with setup.journal(readonly=True) as journal, shown as report:
        verdict, found = audit.audit(journal, setup.every_log(journal), desk, report)
    with setup.output() as output:
        if form == "json":
            output.line(objects.text(audit.as_object(verdict, found)))
        else:
            audit.print_text(output, verdict, found)
    return verdict.code(strict=strict)
