"""Export into a file that takes its name when it is complete, and resume an export that was interrupted.

While it is written the bundle stands beside its place, as `FILE.partial`, and its plan in `FILE.partial.plan`.

- Rule 1: an export resumes if it is of the same question to the same store, which still has what it had. The bundle is
  then, byte for byte, what it would have been without a break: its time and its bounds are those of the first start.
- Rule 2: what cannot be resumed stays as it is (`Unfinished`), until the caller asks to start over. No bundle is ever
  of two questions, stores or moments.
- Rule 3: one export at a time writes there, under a lock on the file (`Busy`).
- Rule 4: an export that this store refuses, or that finds it damaged, leaves nothing to resume.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sealbook.journal.bundle.container import MAGIC, PREAMBLE_BYTES, Codec
from sealbook.journal.bundle.faults import Damaged
from sealbook.journal.bundle.frames import ClaimedKey
from sealbook.journal.engine.lmdb.folder import sync_folder
from sealbook.journal.errors import (
    Busy,
    Corrupt,
    InvalidInput,
    Refused,
    Unfinished,
    UnknownVersion,
    WrongFormat,
    printable,
)
from sealbook.journal.exporting.bundle import Exported, normalized, plan_export, resume_bundle, write_bundle
from sealbook.journal.exporting.parts import Differs, Progress
from sealbook.journal.exporting.question import Plan, Question, digest_of_keys
from sealbook.journal.exporting.resuming import BegunBundle
from sealbook.journal.records.instants import of_micros

if TYPE_CHECKING:
    from sealbook.journal.store.journal import Journal

PRIVATE_MODE = 0o600  # as the store's own files


@dataclass(frozen=True, slots=True)
class Resumed:
    """An export that resumes: when it was started, in unix milliseconds, and how many records are written already."""

    made_at: int
    records: int


def export_to(
    journal: Journal,
    target: Path,
    question: Question,
    *,
    made_at: int,
    codec: Codec = Codec.ZLIB,
    keys: Sequence[ClaimedKey] = (),
    restart: bool = False,
    resumed: Callable[[Resumed], None] | None = None,
    progress: Progress | None = None,
) -> Exported:
    """Write the bundle, or the rest of it; `target` is a file, or nothing yet. One that takes another's place has that
    one's mode, every other is its owner's alone.

    Raises what `bundle.export` does; `Unfinished` by Rule 2, `Busy` by Rule 3. With `restart` it starts
    over. `resumed` is called when the export resumes.
    """
    final = target.resolve()
    partial = final.with_name(f"{final.name}.partial")
    kept, name = partial.with_name(f"{partial.name}.plan"), printable(str(partial))
    with _held(partial) as stream, _removed_while_empty(partial, kept, stream):
        begun = None
        if not _to_begin(partial, stream, restart):
            begun = _begun_bundle(journal, partial, kept, stream, (normalized(question), codec, digest_of_keys(keys)))
            if resumed is not None:
                resumed(Resumed(begun.plan.made_at, begun.records))
        else:
            plan = plan_export(journal, question, made_at=made_at, codec=codec, keys=keys)
            stream.truncate(0)
            _write_durably(kept, plan.encode())
        try:
            if begun is None:
                exported = write_bundle(journal, stream, plan, progress=progress)
            else:
                exported = resume_bundle(journal, stream, begun, progress=progress)
        except Differs as error:
            raise Unfinished(name, str(error)) from error
        except (Refused, Corrupt):
            _remove(partial, kept)
            raise
        stream.flush()
        if final.exists():
            os.fchmod(stream.fileno(), stat.S_IMODE(final.stat().st_mode))
        os.fsync(stream.fileno())
        partial.replace(final)
        kept.unlink(missing_ok=True)
        sync_folder(final.parent)
    return exported


# --- what stands there -----------------------------------------------------------------------------------------------


def _to_begin(partial: Path, stream: BinaryIO, restart: bool) -> bool:
    """Whether the file is to be written from its first byte. What no export wrote is never overwritten."""
    head = stream.read(PREAMBLE_BYTES)
    stream.seek(0)
    if not head.startswith(MAGIC[: len(head)]):
        raise InvalidInput("path", str(partial), "is where the bundle is written, and holds something else")
    return restart or len(head) < PREAMBLE_BYTES


def _begun_bundle(
    journal: Journal, partial: Path, kept: Path, stream: BinaryIO, asked: tuple[Question, Codec, bytes]
) -> BegunBundle:
    """What stands there, if it is of this question and this store; by Rule 2."""
    name = printable(str(partial))
    try:
        plan = Plan.decode(kept.read_bytes())
    except FileNotFoundError as error:
        raise Unfinished(name, f"{printable(kept.name)} is not beside it") from error
    except ValueError as error:
        raise Unfinished(name, f"{printable(kept.name)}: {error}") from error
    if plan.store != journal.view.setting.identity.store_id:
        raise Unfinished(name, "it is of another store")
    if (plan.question, plan.codec) != asked[:2]:
        raise Unfinished(name, f"it is of another question: {_described(plan)}")
    if plan.offered != asked[2]:
        raise Unfinished(name, "other keys were offered to it")
    begun = BegunBundle(journal, plan)
    try:
        begun.read(stream)
    except Damaged as error:
        raise Unfinished(name, f"it is damaged: {error.fault}") from error
    except (Differs, UnknownVersion, WrongFormat) as error:
        raise Unfinished(name, str(error)) from error
    return begun


def _described(plan: Plan) -> str:
    """What was asked then, in words."""
    question = plan.question
    words = ["the whole store" if question.tenant is None else f"tenant {question.tenant}"]
    if question.names:
        words.append(f"{question.what} {', '.join(map(printable, question.names))}")
    for name, instant in (("since", question.since), ("until", question.until)):
        if instant is not None:
            words.append(f"{name} {of_micros(instant)}")
    return f"{', '.join(words)}; {plan.codec.name.lower()}"


# --- files -----------------------------------------------------------------------------------------------------------


@contextmanager
def _held(partial: Path) -> Iterator[BinaryIO]:
    """The file, locked; by Rule 3. One that took its name meanwhile is let go."""
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(partial, flags, PRIVATE_MODE), "r+b") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Busy(f"another export writes {printable(str(partial))}") from None
            if _is_at(partial, stream):
                yield stream
                return


def _is_at(path: Path, stream: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(stream.fileno()))
    except FileNotFoundError:
        return False


@contextmanager
def _removed_while_empty(partial: Path, kept: Path, stream: BinaryIO) -> Iterator[None]:
    """An export that ends before anything is written leaves nothing."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            stream.flush()
        if os.fstat(stream.fileno()).st_size == 0:
            _remove(partial, kept)
        raise


def _remove(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _write_durably(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    with open(os.open(path, flags, PRIVATE_MODE), "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
