"""`backup`: copy a store that is in use, and verify such a copy."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from sealbook.cli.auditing import verdict
from sealbook.cli.ground import isolation
from sealbook.cli.ground.options import Verb, VerbGroup, format_option
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.records import lines, objects
from sealbook.cli.screen import progress
from sealbook.cli.screen.output import Output
from sealbook.cli.screen.safe import safe
from sealbook.cli.screen.words import counted, sized
from sealbook.journal.copies.backup import backup, verify_backup
from sealbook.journal.copies.manifest import Manifest
from sealbook.journal.records import instants

CARRIED = "the store's secret, and all that its records say: keep it as you keep the store"
NOT_CARRIED = "keys and what they have signed, witnesses' states, monitors' states: they live outside of the store"
BRING_BACK = "bring it back with `sealbook recover`: put into service as it is, it would issue epochs a second time"
FOLDER = click.Path(path_type=Path, file_okay=False)


@click.group(
    "backup",
    cls=VerbGroup,
    invoke_without_command=True,
    examples=("sealbook backup --to agents.backup", "sealbook backup verify agents.backup"),
)
@click.option("--to", "target", type=FOLDER, metavar="DIR", help="The backup's folder; 0700, its files 0600.")
@format_option("short", "json")
@click.pass_context
def command(ctx: click.Context, target: Path | None, form: str) -> int | None:
    """Copy the store as it is at one moment, while others go on writing to it.

    The copy is compacted, opened, and derived again from its records before it takes the place of the backup that was
    there; whatever ends the verb earlier has changed nothing. A store that has had no commit since is not copied again.

    A backup is refused where anything else stands, and for a store that does not go on from what the backup holds, as
    one does not that an older copy was put back of: that is exit 3, and the backup stays.

    It carries the store's secret. Keys live elsewhere and are not in it, and neither is what they have signed: once an
    older store was brought back, a key refuses to sign less than it had (`sealbook log adopt` goes on from there).
    """
    if ctx.invoked_subcommand is not None:
        if target is not None or ctx.get_parameter_source("form") is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"the options of {ctx.invoked_subcommand} stand behind it")
        return None
    setup = ctx.find_object(Setup)
    assert setup is not None
    if target is None:
        raise click.UsageError("--to DIR is needed: where the backup stands, or shall stand")
    return _back_up(setup, target, form)


def _back_up(setup: Setup, target: Path, form: str) -> int:
    if (code := _in_child(setup, setup.folder)) is not None:
        return code

    with (
        setup.journal(readonly=True) as journal,
        progress.shown("verifying the copy", quiet=setup.quiet) as report,
    ):
        done = backup(journal, target, made_at=time.time_ns() // 1_000_000, progress=report)
    with setup.report("the backup stands") as output:
        if form == "json":
            _print_object(output, done.manifest, target, done.folder, {"copied": done.copied})
        else:
            output.line(
                "backed up and checked" if done.copied else "nothing was committed since: the backup is current"
            )
            _print(output, done.manifest, target)
    setup.remark(f"the backup carries {CARRIED}")
    setup.remark(f"it does not carry {NOT_CARRIED}")
    return 0


@command.command("verify", cls=Verb, examples=("sealbook backup verify agents.backup",))
@click.argument("path", metavar="DIR", type=FOLDER)
@click.option("--strict", is_flag=True, help="Exit with 1 if anything was not checked.")
@format_option("short", "json")
@pass_setup
def verify(setup: Setup, path: Path, strict: bool, form: str) -> int:
    """Hold a backup to its manifest, and derive all that it holds again from its records.

    No store is needed. The data file must have the digest that it was backed up with, each tenant the records, the log
    and the root. Exit codes: 0 sound, 3 not, 4 no backup or one whose first run was cut off.
    """
    if (code := _in_child(setup, path)) is not None:
        return code

    with progress.shown("verifying", quiet=setup.quiet) as report:
        verified = verify_backup(path, progress=report)
    found = verdict.AuditVerdict([verified.report], verified.report.findings, verified.report.not_checked)
    with setup.output() as output:
        if form == "json":
            _print_object(output, verified.manifest, path, verified.folder, {"verdict": verdict.as_object(found)})
        else:
            _print(output, verified.manifest, path)
            verdict.print_text(output, found)
    setup.remark(BRING_BACK)
    return found.code(strict=strict)


def _in_child(setup: Setup, folder: Path) -> int | None:
    """The verb's exit code, in the parent of the process that does the work: damaged pages may kill who reads them."""
    if not setup.own_process:
        return None

    return isolation.code_of_child(folder)


def _print_object(output: Output, manifest: Manifest, path: Path, folder: Path, more: dict[str, Any]) -> None:
    members = {name: value for name, value in manifest.members().items() if name not in ("sealbook", "v")}
    places = {"path": _name(path), "folder": _name(folder)}
    told = {"carried": CARRIED, "not_carried": NOT_CARRIED, "bring_back": BRING_BACK}
    output.line(objects.text({**places, **members, **more, **told}))


def _name(path: Path) -> str:
    return str(path).encode("utf-8", "backslashreplace").decode()


def _print(output: Output, manifest: Manifest, path: Path) -> None:
    items = [
        ("backup", safe(str(path))),
        ("store", manifest.store.hex()),
        ("made at", instants.of_millis(manifest.made_at)),
        ("generation", str(manifest.generation)),
        ("data file", f"{sized(manifest.data_bytes)}, BLAKE3 {manifest.data_digest.hex()}"),
    ]
    lines.pairs(output, items)
    for tenant in manifest.tenants:
        size = counted(tenant.size, "leaf", "leaves")
        output.line(f"{safe(tenant.tenant)}: {counted(tenant.records, 'record')}, {size}, root {tenant.root.hex()}")
