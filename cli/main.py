"""The console script: options before the verb, verbs loaded when they are needed, and every error's exit code."""

from __future__ import annotations

import faulthandler
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sealbook.cli.ground import exit_codes
from sealbook.cli.ground.options import VerbGroup
from sealbook.cli.ground.setup import DEFAULT_TENANT, Setup, complain

DEFAULT_FOLDER = "agents.sealbook"
COMPLETION = "_SEALBOOK_COMPLETE"  # what the script of `completion` sets when the shell asks what could follow
OWN_PROCESS = "the program's own process"  # click's `obj` when `main` runs: Python code that calls `cli` has none

VERBS = {  # verb: (module of sealbook.cli.commands, what it does), in the order of `--help`
    "init": ("init", "Create a store."),
    "import": ("importing", "Import runs that others recorded: histories, trajectories, traces, webhooks."),
    "show": ("show", "Print records in the order of their arrival."),
    "runs": ("runs", "List runs and where they stand."),
    "run": ("run", "Tell one run's story: where it stands, its effects, its records."),
    "case": ("case", "Print a case's records, whichever run wrote them."),
    "effects": ("effects", "List effects and how they ended."),
    "verify": ("verify", "Derive everything again from the record bytes and report every difference."),
    "audit": ("audit", "Ask everything of the whole store that an auditor can, in one report."),
    "health": ("health", "Say whether the store needs somebody: a probe for monitoring."),
    "log": ("log.group", "The tenant's Merkle log: head, checkpoint and proofs."),
    "keys": ("keys", "Keys of record signers, logs and witnesses: make, list, rotate, hand over."),
    "witness": ("witness.group", "Cosign other logs' checkpoints, or have one's own cosigned."),
    "append": ("append", "Append one entry, given as JSON."),
    "reconcile": ("reconcile", "Record whether an effect in doubt has happened, so that its run can go on."),
    "lease": ("lease", "Acquire, renew, release, force or show a run's lease."),
    "cancel": ("cancel", "Record that somebody wants a run to stop."),
    "seal": ("seal", "Bring a concluded run's head into the log and freeze the run."),
    "anchor": ("anchor", "Bring an open run's head into the log, or those of all open runs."),
    "export": ("export", "Write evidence that can be checked elsewhere: runs, cases, a tenant, or all of them."),
    "bundle": ("bundle", "Check such evidence, and look into it, without a store."),
    "restore": ("restore", "Build a store again from bundles."),
    "backup": ("backup", "Copy a store that is in use, checked, and verify such a copy."),
    "recover": ("recover", "Salvage what is readable of a damaged store, or bring a backup back, as a new store."),
    "reindex": ("reindex", "Drop the indexes and build them again."),
    "info": ("info", "Say what the store is and how much it holds."),
    "du": ("du", "Say where the store's bytes are."),
    "man": ("man", "Print or install the manual: a page for the program and one for each verb."),
    "completion": ("completion", "Print what makes a shell complete verbs and options."),
    "demo": ("demo", "Kill an agent in the middle of an effect, take over, prove, tamper, find it."),
}


EXAMPLES = (  # of verbs whose own help has them, too
    "sealbook init",
    "sealbook show -n 20",
    "sealbook run order-42",
    "sealbook verify",
    "sealbook man show",
)


class VerbsByName(VerbGroup):
    """The verbs by name. A verb's module is imported when the verb is run or its help is shown, not before."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which they are needed."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb, loaded now."""
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"sealbook.cli.commands.{VERBS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Every verb with its line, from the table, so that nothing is loaded for it."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, line) for name, (_, line) in VERBS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb that the first argument names; an unknown one is met with the verbs that look like it."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            import difflib

            near = difflib.get_close_matches(name, VERBS, n=2)
            hint = f": did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"there is no verb {name!r}{hint}")
        return super().resolve_command(ctx, args)

    def main(  # type: ignore[override]  # it always ends the process, as click's does in standalone mode
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> None:
        """Run the verb and exit with its code."""
        sys.exit(run(self, sys.argv[1:] if args is None else list(args), prog_name or "sealbook", extra))


def run(group: click.Group, args: list[str], prog_name: str, extra: dict[str, Any]) -> int:
    """The exit code of this command line. Errors become one line on standard error."""
    extra.pop("standalone_mode", None)
    try:
        with group.make_context(prog_name, args, **extra) as ctx:
            code = group.invoke(ctx)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code if isinstance(code, int) else exit_codes.OK
    except click.exceptions.Exit as exit_:
        return _flushed(exit_.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else error.format_message(), err=True)
        return exit_codes.USAGE
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else prog_name
        complain(f"{_without_stop(error.format_message())}{_misplaced(group, error)} (see `{path} --help`)")
        return exit_codes.USAGE
    except click.ClickException as error:  # a file that the caller brought and that is none of its kind: no help for it
        complain(_without_stop(error.format_message()))
        return exit_codes.USAGE
    except (click.Abort, KeyboardInterrupt):
        _discard_output()
        return exit_codes.INTERRUPTED
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> int:
    code = exit_codes.code_of(error)
    if code is None:
        raise error
    if code == exit_codes.BROKEN_PIPE:
        _discard_output()
        return code
    if isinstance(error, OSError):
        _discard_output()
    complain(exit_codes.line_of(error))
    return _flushed(code)


def _flushed(code: int) -> int:
    """The code, once what was printed has gone out; that of the failure when it cannot."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        return _failed(error)
    return code


def _discard_output() -> None:
    """Let nothing that is still buffered be written when the interpreter ends: that would complain once more."""
    try:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)
    except (OSError, ValueError, AttributeError):
        pass  # not a file of the system's: nothing can fail later


def _misplaced(group: click.Group, error: click.ClickException) -> str:
    """For an option that the program has and the verb has not: where it stands."""
    if not isinstance(error, click.NoSuchOption):
        return ""
    known = {name for option in group.params for name in (*option.opts, *option.secondary_opts)}
    return f": {error.option_name} stands before the verb" if error.option_name in known else ""


def _without_stop(message: str) -> str:
    return message.removesuffix(".").replace("\n", " ")


def version() -> str:
    """The version that is installed."""
    from importlib.metadata import version as installed

    return installed("sealbook")


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        click.echo(f"sealbook {version()}")
        ctx.exit()


def _folder(ctx: click.Context, param: click.Parameter, value: str) -> Path:
    """The store's folder; a usage error when its name is empty, which would be the working folder, or is no UTF-8, in
    which the store could not be spoken of."""
    if not value:
        raise click.BadParameter("it is empty: name a folder")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise click.BadParameter(f"{value!a} is no name of UTF-8 without NUL")
    return Path(value)


@click.group(
    cls=VerbsByName,
    examples=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "-D",
    "--dir",
    "folder",
    envvar="SEALBOOK_DIR",
    callback=_folder,
    default=DEFAULT_FOLDER,
    show_default=True,
    metavar="DIR",
    help="The store's folder; SEALBOOK_DIR stands in.",
)
@click.option(
    "--tenant",
    envvar="SEALBOOK_TENANT",
    default=DEFAULT_TENANT,
    show_default=True,
    metavar="T",
    help="The tenant; SEALBOOK_TENANT stands in.",
)
@click.option(
    "--origin",
    envvar="SEALBOOK_ORIGIN",
    default="sealbook",
    show_default=True,
    metavar="NAME",
    help="The base name of the tenants' logs in checkpoints; SEALBOOK_ORIGIN stands in.",
)
@click.option(
    "--store-origin",
    envvar="SEALBOOK_STORE_ORIGIN",
    metavar="NAME",
    help="The name of the store log, where one is kept; SEALBOOK_STORE_ORIGIN stands in.",
)
@click.option("--pager/--no-pager", default=True, help="Page listings on a terminal: JOURNAL_PAGER, PAGER, or less.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colours; NO_COLOR and FORCE_COLOR are honoured.",
)
@click.option("-q", "--quiet", is_flag=True, help="No remarks and no progress; answers and errors alone.")
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
@click.pass_context
def cli(
    ctx: click.Context,
    folder: Path,
    tenant: str,
    origin: str,
    store_origin: str | None,
    pager: bool,
    color: str,
    quiet: bool,
) -> None:
    """An append-only, hash-chained journal of agent runs: what did a run do, in which order, and has anyone changed it?

    Exit codes: 0 done, 1 a check met what it could not judge or a pattern was not found, 2 usage, 3 integrity failure,
    4 not found, 5 refused, 6 the store or the output failed, 7 in doubt, 130 interrupted, 141 the reader of the output
    went away.
    """
    given = ctx.get_parameter_source("tenant") is click.core.ParameterSource.COMMANDLINE
    own = ctx.obj is OWN_PROCESS
    ctx.obj = Setup(folder, tenant, given, origin, pager, color, quiet, own_process=own, store_origin=store_origin)


def main() -> None:
    """The console script."""
    _open_standard_files()
    if instruction := os.environ.get(COMPLETION):
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(cli, {}, "sealbook", COMPLETION, instruction))
    faulthandler.enable(file=2)
    cli.main(prog_name="sealbook", obj=OWN_PROCESS)


def _open_standard_files() -> None:
    """Give the three standard descriptors a file each, and let no character fail to be printed.

    Were one of them closed, the store's data file would be opened under its number, and whatever a library prints
    would be written into the store. What stands for a closed standard output can only be read, so that an answer which
    nobody gets is a failure (`the output cannot be written`); remarks and errors without a reader are dropped.
    """
    for descriptor, name, mode in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # takes the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(descriptor, "w" if descriptor else "r", encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
