"""`import`: bring in runs that others recorded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from sealbook.cli.ground import exit_codes
from sealbook.cli.ground.options import Verb, format_option
from sealbook.cli.ground.setup import Setup, complain, pass_setup
from sealbook.cli.importing import apply, documents, github, journal_export, jsonl, otlp, strict, temporal, traj
from sealbook.cli.importing.apply import Imported
from sealbook.cli.importing.history import History
from sealbook.cli.records import objects
from sealbook.cli.screen import progress
from sealbook.cli.screen.output import Output
from sealbook.cli.screen.safe import safe
from sealbook.cli.screen.words import counted
from sealbook.journal import Journal, Refused, Tenant

FILE = click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True)
STANDARD_INPUT = Path("-")
TRAJECTORY_MEMBERS = ("trajectory", "history", "messages")
JOURNAL_EXPORT = (b"__CURSOR=", b"__REALTIME_TIMESTAMP=")  # the fields that begin an entry of systemd's journal
PROGRESS_FILES_MIN = 10  # fewer are done before a bar could be read


@dataclass(slots=True)
class Tally:
    """What became of the files so far."""

    new: int = 0
    extended: int = 0
    unchanged: int = 0
    refused: int = 0
    records: int = 0


@click.command(
    "import",
    cls=Verb,
    examples=(
        "sealbook -D agents.sealbook import --format temporal histories/*.json",
        "sealbook -D agents.sealbook import --format traj trajectories/*.traj",
        "sealbook -D agents.sealbook import traces/*.json webhooks/*.json boots.export",
    ),
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["temporal", "traj", "otlp", "github", "journal-export", "jsonl"]),
    help="Temporal workflow histories; trajectories of SWE-agent and mini-swe-agent; OTLP/JSON traces; bodies of"
    " GitHub's webhooks; systemd's Journal Export Format; records as lines of JSON. Guessed when left out.",
)
@click.option("--again", is_flag=True, help="Also records that this store has already: once more, as a copy.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=FILE)
@format_option("short", "json")
@pass_setup
def command(setup: Setup, kind: str | None, again: bool, files: tuple[Path, ...], form: str) -> int:
    """Import runs that others recorded. The store is created if there is none and a file could be read.

    Each file enters whole or not at all. A file that is damaged or refused is reported, the others are imported, and
    the exit code is 5; where one is missing, nothing is imported. Importing a file again writes nothing and says so; a
    longer copy of it appends what is new. What this very store exported is refused: its runs would stand there twice.

    With - for FILE, standard input is read.
    """
    tally = Tally()
    with ExitStack() as opened, setup.report("what was imported stands") as output:
        target = Target(setup, opened, again)
        bar_wanted = len(files) >= PROGRESS_FILES_MIN and not output.terminal
        with progress.shown("importing", quiet=setup.quiet or not bar_wanted) as report:
            for number, file in enumerate(files, 1):
                _import(target, file, kind, _teller(setup, output, form), tally)
                if report is not None:
                    report(number, len(files))
        if form == "short" and len(files) > 1 and not setup.quiet:
            output.line(
                f"{len(files)} files: {tally.new} new, {tally.extended} extended, {tally.unchanged} imported already,"
                f" {tally.refused} refused; {counted(tally.records, 'record')}"
            )
    return exit_codes.REFUSED if tally.refused else exit_codes.OK


Teller = Callable[[Path, "Imported | None", "str | None"], None]


class Target:
    """The tenant that the files go into. The store is opened, and created, for the first file that could be read."""

    def __init__(self, setup: Setup, opened: ExitStack, again: bool) -> None:
        self._setup = setup
        self._opened = opened
        self._again = again
        self._journal: Journal | None = None
        self._tenant: Tenant | None = None

    def bring(self, histories: Sequence[History]) -> list[Imported]:
        """Import the histories of one file. `Refused` as `apply_all`, and for records of this very store."""
        if self._journal is None or self._tenant is None:
            self._journal = self._opened.enter_context(self._setup.journal(readonly=False, create=True))
            self._tenant = self._setup.new_tenant(self._journal)
        if not self._again:
            apply.refuse_own(self._journal, histories)
        return apply.apply_all(self._tenant, histories)


def _import(target: Target, file: Path, kind: str | None, tell: Teller, tally: Tally) -> None:
    try:
        histories = _histories(file, kind)
    except (Refused, OSError) as error:
        tally.refused += 1
        tell(file, None, _reason(file, error))
        return
    try:
        runs = target.bring(histories)
    except (Refused, OSError) as error:
        tally.refused += 1
        tell(file, None, _reason(file, error))
        return
    for imported in runs:
        tally.records += imported.records
        setattr(tally, imported.result, getattr(tally, imported.result) + 1)
        tell(file, imported, None)


def _histories(file: Path, kind: str | None) -> list[History]:
    """The histories that the file holds: one of Temporal or of an agent, of the others as many as they have runs."""
    text = sys.stdin.buffer.read() if file == STANDARD_INPUT else file.read_bytes()
    name = str(file)
    match kind or guess(text, name):
        case "temporal":
            return [temporal.read(text, name)]
        case "traj":
            return [traj.read(text, name)]
        case "otlp":
            return otlp.read(text, name)
        case "github":
            return github.read(text, name)
        case "journal-export":
            return journal_export.read(text, name)
        case _:
            return jsonl.read(text, name)


def guess(text: bytes, name: str) -> str:
    """What the file is, by the members that its kind cannot do without."""
    if text.startswith(JOURNAL_EXPORT):
        return "journal-export"
    found = documents.read(text, name)
    document = found[0]
    if isinstance(document, list) and document and isinstance(document[0], dict) and _is_webhook(document[0]):
        return "github"
    members = document if isinstance(document, dict) else {}
    if "events" in members:
        return "temporal"
    if "resourceSpans" in members:
        return "otlp"
    if _is_webhook(members):
        return "github"
    if isinstance(members.get("run"), str) and isinstance(members.get("kind"), str):
        return "jsonl"
    if isinstance(document, list) or any(members.get(member) is not None for member in TRAJECTORY_MEMBERS):
        return "traj"
    raise strict.damaged(
        name,
        "is neither a Temporal history, an object with a list `events`, nor a trajectory, a list of messages or an"
        " object with `trajectory`, `history` or `messages`, nor traces, webhooks, a journal's export or records:"
        " say with --format what it is",
    )


def _is_webhook(document: dict[str, Any]) -> bool:
    return any(isinstance(document.get(member), dict) for member in ("workflow_run", "workflow_job"))


def _reason(file: Path, error: Exception) -> str:
    """Why the file was not imported, which names the file."""
    if isinstance(error, OSError):
        return f"{file}: cannot be read: {error.strerror}"
    text = str(error)
    return text if text.startswith(str(file)) else f"{file}: {text}"


def _teller(setup: Setup, output: Output, form: str) -> Teller:
    def tell(file: Path, imported: Imported | None, reason: str | None) -> None:
        if reason is not None:
            complain(f"{reason}; nothing of it was imported")
        if form == "json":
            output.line(objects.text(_object(file, imported, reason)))
        elif imported is not None and not setup.quiet:
            for line in _lines(file, imported):
                output.line(line)
        if output.terminal:
            output.flush()

    return tell


def _object(file: Path, imported: Imported | None, reason: str | None) -> dict[str, Any]:
    path = str(file).encode("utf-8", "backslashreplace").decode()
    if imported is None:
        return {"file": path, "run": None, "result": "refused", "records": 0, "known": 0, "error": reason}
    return {
        "file": path,
        "run": imported.run,
        "result": imported.result,
        "records": imported.records,
        "known": imported.known,
        "renamed_from": imported.renamed_from,
        "remarks": list(imported.remarks),
        "error": None,
    }


def _were(count: int) -> str:
    return f"{count} {'was' if count == 1 else 'were'}"


def _lines(file: Path, imported: Imported) -> Sequence[str]:
    run = safe(imported.run)
    words = {
        "new": f"run {run}, {counted(imported.records, 'record')}",
        "extended": f"run {run}, {counted(imported.records, 'more record')}, {_were(imported.known)} there",
        "unchanged": f"imported already, as run {run}",
    }[imported.result]
    notes = list(imported.remarks)
    if imported.renamed_from is not None:
        notes.insert(0, f"a different history has the name {imported.renamed_from}")
    return [f"{safe(str(file))}: {words}", *(f"  {safe(note)}" for note in notes)]
