"""What an error becomes at the command line: an exit code, and one line that says what to do.

| code | meaning |
|---|---|
| 0 | done; an empty listing is done too |
| 1 | a check met what it could not judge: records of a newer version, anything unchecked under `--strict`; and |
|   | `show --grep` found nothing |
| 2 | the command line itself is wrong, or what it names: a verb, an option, a name, number, entry or file that no |
|   | store can take; nothing was done |
| 3 | integrity failure: stored bytes contradict themselves, or a proof does not hold |
| 4 | what was asked for by its exact name is not in the store; a pattern or filter without a match is done (0) |
| 5 | refused, nothing was written |
| 6 | the store cannot be opened or used, or the output cannot be written |
| 7 | in doubt: a human, or a check of the world, must decide |
| 130, 141 | interrupted; the reader of our output went away |

`health`, the monitoring probe, alone has others: 0 ok, 1 warning, 2 critical.
"""

from __future__ import annotations

import errno

OK = 0
INCOMPLETE = 1
USAGE = 2
INTEGRITY = 3
NOT_FOUND = 4
REFUSED = 5
FAILED = 6
IN_DOUBT = 7
INTERRUPTED = 130
BROKEN_PIPE = 141

NOT_FOUND_CHARACTERS_MAX = 4096  # a path is told whole: Linux takes none that is longer
# of inputs that no store can take, whatever it holds
USAGE_INPUTS = frozenset(
    {"limit", "ttl", "key name", "reason", "basis", "file", "effect key", "URL", "passphrase file"}
)
SALVAGE = "or salvage what is readable with `sealbook recover SRC DST`"
FILE_MODES = "the folder's files must be readable and lock.mdb writable by this user (to write: all of them)"


class Unprinted(OSError):
    """The output could not be written, after what it was to report had been committed. `done` says what stands."""

    def __init__(self, done: str, error: OSError) -> None:
        super().__init__(error.errno, error.strerror)
        self.done = done


def code_of(error: BaseException) -> int | None:
    """The exit code for an error; None for one that is a fault of this program."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    if isinstance(error, OSError):
        return FAILED
    from sealbook.cli.ground.named_files import FileRefused
    from sealbook.journal import errors
    from sealbook.merkle.errors import VerificationError

    if isinstance(error, FileRefused):
        return USAGE
    if isinstance(error, errors.InvalidInput) and error.what.removesuffix(" part") in USAGE_INPUTS:
        return USAGE
    for kind, code in (
        (errors.InvalidName, USAGE),
        (errors.InvalidEntry, USAGE),
        (errors.TooLarge, USAGE),
        (errors.InvalidCursor, USAGE),
        (errors.Corrupt, INTEGRITY),
        (VerificationError, INTEGRITY),
        (errors.NotFound, NOT_FOUND),
        (errors.InDoubt, IN_DOUBT),
        (errors.Refused, REFUSED),
        (errors.EngineFailed, FAILED),
    ):
        if isinstance(error, kind):
            return code
    if isinstance(error, errors.UnknownVersion):
        return FAILED if error.run is None else INCOMPLETE
    return None


def line_of(error: BaseException) -> str:
    """The error in one line: what was wrong, with which value, and what to do. It is not yet safe for a terminal."""
    from sealbook.journal import errors

    if isinstance(error, OSError):
        return _os_line(error)
    text = _text(error)
    if getattr(error, "hint", None) is errors.Hint.UNREADABLE:
        return f"{text}, {SALVAGE}"
    advice = _advice(error)
    return f"{text}: {advice}" if advice else text


def _text(error: BaseException) -> str:
    """The error's own text, with what only callers of the library can do said for who typed a command."""
    from sealbook.journal import errors

    if isinstance(error, errors.NotFound):
        return f"no {error.what} {errors.shown(error.value, NOT_FOUND_CHARACTERS_MAX)}"
    text = str(error)
    if getattr(error, "hint", None) is errors.Hint.FILE_MODES:
        return f"{text.rpartition(': ')[0]}: {FILE_MODES}"
    return text


def _os_line(error: OSError) -> str:
    reason = error.strerror or type(error).__name__
    if isinstance(error, Unprinted):
        return f"{error.done}, but the output cannot be written: {reason}"
    if error.filename is not None:
        return f"{error.filename}: {reason}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"the output cannot be written: {reason}: make room, or send it elsewhere"
    return f"the output cannot be written: {reason}"


def _advice(error: BaseException) -> str | None:
    from sealbook.journal import errors

    if type(error) is errors.StoreMissing:  # not that of a witness's state
        return "run `sealbook init`, or name another folder with -D"
    if isinstance(error, errors.Corrupt) and (error.run is not None or error.table is not None):
        if error.table == "store":  # without that row nothing else can be read, so there is nothing to verify
            return f"stop writing, restore from a copy, {SALVAGE}"
        return f"stop writing, run `sealbook verify`, restore from a copy, {SALVAGE}"
    if isinstance(error, errors.UnknownVersion) and error.run is not None:
        return "read it with a newer sealbook"
    if isinstance(error, errors.NotFound) and error.what.startswith("leaf below size"):
        return "--size is how many leaves the log then had; without it, it is the log as it stands"
    if isinstance(error, errors.NotFound) and error.what == "store log key":
        return f"`sealbook keys gen --log --origin {_word(str(error.value))} --exact` makes one"
    if isinstance(error, errors.NotFound):
        return _NOT_FOUND.get(error.what) or _NOT_FOUND.get(error.what.partition(" ")[0])
    if isinstance(error, errors.Unfinished):
        return "repeat that export, or begin anew with --restart"
    if isinstance(error, errors.CommitUnknown):
        return "look with `sealbook show -n 20` whether it stands before you repeat it"
    if isinstance(error, errors.RestoredRun):
        return f"who knows that lets it go on with `sealbook lease force {_word(error.run)}`"
    if isinstance(error, errors.LeaseNotHeld) and error.hint is errors.Hint.NEVER_LEASED:
        return f"`sealbook lease acquire {_word(error.run)}` takes one"
    if isinstance(error, errors.Fenced | errors.LeaseNotHeld):
        return f"`sealbook lease show {_word(error.run)}` shows who holds it"
    if isinstance(error, errors.DuplicateEffect | errors.EffectSettled | errors.EffectNotStarted | errors.InDoubt):
        return f"`sealbook effects {_word(error.run)}` shows where it stands"
    if isinstance(error, errors.RecordedFailure):
        return f"`sealbook effects {_word(error.run)}` shows where it stands"
    if isinstance(error, errors.Mismatch) and error.seq is not None:
        return f"`sealbook run {_word(error.run)}` shows what is recorded"
    if isinstance(error, errors.Mismatch) and error.what != "the outcome":
        return f"`sealbook effects {_word(error.run)}` shows where it stands"
    if isinstance(error, errors.Mismatch | errors.NotConcluded):
        return f"`sealbook run {_word(error.run)}` shows how it ended"
    if isinstance(error, errors.InvalidEntry | errors.TooLarge):
        return "nothing was written"
    return None


_NOT_FOUND = {
    "run": "`sealbook runs` lists what there is",
    "case": "`sealbook show -F case` lists what there is",
    "tenant": "`sealbook info` lists what there is",
    "leaf": "`sealbook seal` or `sealbook anchor` brings it into the log",
    "effect": "`sealbook effects RUN` lists what there is",
    "lease": "it was never leased, or is sealed",
    "published": "`sealbook log publish` publishes one",
    "cosigned": "it may be mistyped; --unseen disables it all the same",
    "checkpoint": "name a folder that `sealbook log tiles` writes, or a URL that serves one",
    "log key": "`sealbook keys gen --log` makes one, and --origin before the verb names the log that has one",
    "record key": "`sealbook keys gen --record NAME` makes one",
    "witness key": "`sealbook keys gen --witness NAME` makes one",
    "key": "`sealbook keys list` lists what there is",
    "policy": "`sealbook witness add` writes one, --policy names another",
}


def _word(name: str) -> str:
    """The name as a shell takes it."""
    import shlex

    return shlex.quote(name)
