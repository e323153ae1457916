"""The store's folder: which files it has, how it is made, and the lock that one writer holds.

agents.sealbook/     0700
  SEALBOOK           0600   who the store is; there once its creation is complete
  SEALBOOK.new       0600   the same during creation; alone it is an unfinished creation
  data.mdb           0600   LMDB's file
  lock.mdb           0600   LMDB's locks and readers; only ever `stat`ed, for to close any descriptor of it in a
                            process drops the locks which LMDB holds in that process
  writer.lock        0600   empty; one writer at a time holds `flock` on it
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from sealbook.journal.errors import Busy, Corrupt, EngineFailed, Hint, StoreFull, StoreMissing, WrongFormat, hinted

SEALBOOK: Final = "SEALBOOK"
SEALBOOK_NEW: Final = "SEALBOOK.new"
DATA: Final = "data.mdb"
LOCK: Final = "lock.mdb"
WRITER_LOCK: Final = "writer.lock"
OUR_FILES: Final = frozenset({SEALBOOK, SEALBOOK_NEW, DATA, LOCK, WRITER_LOCK})

IDENTITY_BYTES_MAX: Final = 65536  # far more than SEALBOOK ever has
UNFINISHED_BYTES_MAX: Final = 1 << 17  # an unfinished creation holds one row; more than this is somebody's data
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.0002, 0.002  # between two tries for the writer's lock

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
DENIED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


# --- what stands at the path --------------------------------------------------------------------------------------


def refuse_all_but_a_store(folder: Path) -> None:
    """`StoreMissing` where nothing was made, `WrongFormat` where something else stands, `Corrupt` where parts lack."""
    names = _names(folder)
    if names is None or not names:
        raise StoreMissing(f"no store at {folder}: create it first")
    if SEALBOOK not in names:
        if SEALBOOK_NEW in names:
            raise StoreMissing(f"the creation of {folder} was cut short: create it again")
        if names == {WRITER_LOCK}:
            raise StoreMissing(f"no store at {folder}: create it first")
        error = WrongFormat(f"{folder} is not a store: it has no {SEALBOOK}, it holds {_listed(names)}")
        if DATA in names:
            error.what += ": if it was one, restore it from a copy"
            error.hint = Hint.UNREADABLE
        raise error
    for name in sorted(names & OUR_FILES):
        if not stat.S_ISREG((folder / name).lstat().st_mode):
            raise WrongFormat(f"{folder / name} is not a regular file: a store's files stand in its own folder")
    if DATA not in names:
        raise Corrupt(f"{folder} has lost its {DATA}: put a copy of the store back")
    if (folder / DATA).stat().st_size == 0:
        raise Corrupt(f"{folder / DATA} is empty: put a copy of the store back")


def read_identity(folder: Path) -> bytes:
    """The bytes of SEALBOOK."""
    with told(f"cannot read {folder / SEALBOOK}"), (folder / SEALBOOK).open("rb") as file:
        text = file.read(IDENTITY_BYTES_MAX + 1)
    if len(text) > IDENTITY_BYTES_MAX:
        raise Corrupt(f"{folder / SEALBOOK} is longer than {IDENTITY_BYTES_MAX} bytes")
    return text


def _names(folder: Path) -> set[str] | None:
    try:
        return set(os.listdir(folder))
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise WrongFormat(f"{folder} is a file, not a store's folder") from None
    except OSError as error:
        raise EngineFailed(f"cannot read {folder}: {error.strerror}") from error


def _listed(names: set[str], names_max: int = 3) -> str:
    shown = ", ".join(sorted(names)[:names_max])
    return shown if len(names) <= names_max else f"{shown} and {len(names) - names_max} more"


# --- creation -----------------------------------------------------------------------------------------------------


def make(folder: Path) -> None:
    """Make the folder, or take an empty one, an unfinished one, or a store; refuse one that holds anything else."""
    names = _names(folder)
    if names is None:
        with told(f"cannot create {folder}"):
            try:
                folder.mkdir(mode=0o700)
            except FileNotFoundError:
                if folder.parent.is_dir():  # as /proc is
                    raise EngineFailed(f"cannot create {folder}: {folder.parent} takes no new folder") from None
                raise EngineFailed(f"{folder.parent} does not exist: make that folder first") from None
            except FileExistsError:
                pass  # another process was faster
            else:
                sync_folder(folder.parent)
        names = _names(folder) or set()
    if SEALBOOK in names:
        return
    if foreign := names - OUR_FILES:
        raise WrongFormat(f"{folder} holds {_listed(foreign)}: a store needs a folder of its own")
    if SEALBOOK_NEW not in names and names - {WRITER_LOCK}:
        raise WrongFormat(f"{folder} holds {_listed(names)} and no {SEALBOOK}: it is not ours to overwrite")
    with told(f"cannot create {folder}"):
        _chmod(folder, 0o700)


def start_creation(folder: Path, identity_text: bytes) -> None:
    """Under the writer's lock: clear away an unfinished creation, then write and fsync SEALBOOK.new."""
    with told(f"cannot create {folder}"):
        data = folder / DATA
        if data.exists() and data.stat().st_size > UNFINISHED_BYTES_MAX:
            raise Corrupt(f"{data} holds more than an unfinished creation does: move it away or restore {SEALBOOK}")
        for name in (DATA, LOCK, SEALBOOK_NEW):
            (folder / name).unlink(missing_ok=True)
        file = os.open(folder / SEALBOOK_NEW, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with io.FileIO(file, "wb") as new:
            os.fchmod(file, 0o600)
            if new.write(identity_text) != len(identity_text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file)
        sync_folder(folder)


def finish_creation(folder: Path) -> None:
    """Under the writer's lock: from here on it is a store."""
    with told(f"cannot create {folder}"):
        for name in (DATA, LOCK):
            _chmod(folder / name, 0o600)
        sync_folder(folder)
        os.rename(folder / SEALBOOK_NEW, folder / SEALBOOK)
        sync_folder(folder)


def is_complete(folder: Path) -> bool:
    """Whether the creation of this store has ended."""
    return (folder / SEALBOOK).exists()


def make_private(path: Path) -> None:
    """Let the file be its owner's alone, and what it holds durable."""
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fchmod(file, 0o600)
        os.fsync(file)
    finally:
        os.close(file)


def sync_folder(folder: Path) -> None:
    """fsync the folder itself, so that the names in it are durable."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _chmod(path: Path, mode: int) -> None:
    if stat.S_IMODE(path.stat().st_mode) == mode:
        return
    with suppress(PermissionError):  # somebody else's folder, lent to us: its owner has chosen the mode
        path.chmod(mode)


# --- LMDB's lock file ---------------------------------------------------------------------------------------------


def allocate_lock_file(folder: Path, size: int, *, readonly: bool) -> None:
    """Give lock.mdb its blocks before LMDB maps it: on a full disk a hole in it would kill a reader with SIGBUS.

    Only ever before LMDB has opened the environment in this process.
    """
    path = folder / LOCK
    try:
        found = path.stat()
        if found.st_size >= size and found.st_blocks * 512 >= found.st_size:
            return
    except FileNotFoundError:
        pass
    try:
        file = _opened_or_made(str(path))
    except OSError as error:
        if readonly and error.errno in DENIED:
            return
        raise failure(error, f"cannot open {path}") from error
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file, 0, max(size, os.fstat(file).st_size))
    except OSError as error:
        raise failure(error, f"cannot allocate {path}") from error
    finally:
        os.close(file)


# --- the writer's lock --------------------------------------------------------------------------------------------


class WriterLock:
    """`flock` on writer.lock: one writer among all processes, freed by the kernel when its holder dies.

    Who waits for it holds a shared `flock` on SEALBOOK meanwhile, which is how a writer with more to write learns that
    others wait. It is a courtesy: nothing depends on it.
    """

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / WRITER_LOCK)
        with told(f"cannot open {self.path} for writing"):
            self._file = io.FileIO(_opened_or_made(self.path), "r+b")
        found = os.fstat(self._file.fileno())
        self.identity = (found.st_dev, found.st_ino)
        self._waiters_path = folder / SEALBOOK
        self._waiters: io.FileIO | None = None

    def acquire(self, deadline: float, still_wanted: Callable[[], None]) -> None:
        """Take the lock, or raise `Busy` at `deadline`. `still_wanted` may raise between two tries."""
        if not self._taken():
            self._wait(deadline, still_wanted)

    def give_way(self) -> None:
        """Not holding the lock: let those who wait for it try before we do, for one longest pause between two tries."""
        for _ in range(int(PAUSE_SECONDS_MAX / PAUSE_SECONDS_MIN)):
            waiters = self._waiters_file()
            if waiters is None or _locked(waiters, fcntl.LOCK_EX):
                break
            time.sleep(PAUSE_SECONDS_MIN)
        if self._waiters is not None:
            fcntl.flock(self._waiters, fcntl.LOCK_UN)

    def _wait(self, deadline: float, still_wanted: Callable[[], None]) -> None:
        waiters = self._waiters_file()
        pause = PAUSE_SECONDS_MIN
        try:
            while True:
                if waiters is not None:
                    _locked(waiters, fcntl.LOCK_SH)
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Busy(f"another process is writing ({self.path} is locked)")
                time.sleep(min(pause, left))
                pause = min(pause * 2, PAUSE_SECONDS_MAX)
                still_wanted()
                if self._taken():
                    return
        finally:
            if waiters is not None:
                fcntl.flock(waiters, fcntl.LOCK_UN)

    def _taken(self) -> bool:
        return _locked(self._file, fcntl.LOCK_EX)

    def _waiters_file(self) -> io.FileIO | None:
        """SEALBOOK, opened when somebody first waits: a store that is being created has none yet."""
        if self._waiters is None:
            try:
                self._waiters = io.FileIO(self._waiters_path, "rb")
            except OSError:
                return None
        return self._waiters

    @property
    def descriptor(self) -> int:
        """For the one call that frees the lock: `fcntl.flock(descriptor, fcntl.LOCK_UN)`."""
        return self._file.fileno()

    def close(self) -> None:
        """Close the descriptors. In a forked child this does not free the parent's lock."""
        self._file.close()
        if self._waiters is not None:
            self._waiters.close()


def _locked(file: io.FileIO, kind: int) -> bool:
    """Take the `flock` if nobody stands in the way."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# --- room ---------------------------------------------------------------------------------------------------------


@contextmanager
def held_if_there(
    path: Path, kind: int, busy: str, *, create: bool = False, missing: type[OSError] = FileNotFoundError
) -> Iterator[None]:
    """Hold the `flock` on this file; `Busy`, which says `busy`, when others do. A copy of the folder may lack the file,
    and is then not held: the error `missing` says so."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
    try:
        descriptor = os.open(path, flags, 0o600)
    except missing:
        yield
        return
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Busy(busy) from None
    finally:
        os.close(descriptor)


def refuse_full(folder: Path, needed: int) -> None:
    """Under the writer's lock: `StoreFull` when the data file cannot take this many bytes more.

    Only asking for them tells, because limits and quotas count as well. Bytes that are given stand after the last
    page, where the next write uses them.
    """
    if not hasattr(os, "posix_fallocate"):
        return
    file = os.open(folder / DATA, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.posix_fallocate(file, os.fstat(file).st_size, needed)
    except OSError as error:
        if error.errno in FULL:
            raise failure(error, f"no room for the write in {folder}, nothing was written") from error
    finally:
        os.close(file)


def _opened_or_made(path: str) -> int:
    """A descriptor of this lock file. A new one has mode 0600 whatever the umask; an old one keeps what it has."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        file = os.open(path, flags | os.O_CREAT, 0o600)
        os.fchmod(file, 0o600)
        return file


# --- errors of the file system ------------------------------------------------------------------------------------


@contextmanager
def told(what: str) -> Iterator[None]:
    """Turn an `OSError` in the block into the error that says what could not be done, and what to do."""
    try:
        yield
    except OSError as error:
        raise failure(error, what) from error


def failure(error: OSError, what: str) -> EngineFailed:
    """The journal's error for one of the file system."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in FULL:
        return StoreFull(f"{what}: {reason}: free some space")
    if error.errno == errno.EROFS:
        what_to_do = "open it with readonly=True, or make the medium writable"
        return hinted(EngineFailed(f"{what}: {reason}: {what_to_do}"), Hint.FILE_MODES)
    if error.errno in DENIED:
        what_to_do = "open it with readonly=True, or as the store's owner"
        return hinted(EngineFailed(f"{what}: {reason}: {what_to_do}"), Hint.FILE_MODES)
    return EngineFailed(f"{what}: {reason}")
