"""Files that only their owner reads: written whole or not at all, durably, and the lock of a folder of them."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sealbook.journal.errors import Busy, EngineFailed, InvalidInput, Refused

FOLDER_MODE = 0o700
PRIVATE_MODE = 0o600
PUBLIC_MODE = 0o644
KEY_FILE_BYTES_MAX = 65_536  # a private half takes 300 bytes, the public one of ML-DSA-44 2,100


@dataclass(eq=False)
class PathRefused(Refused):
    """What stands at the path, or where the path lies, is not fit for a private key."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def make_folder(folder: Path) -> None:
    """The folder, 0700 whatever the umask; one that stands already must be closed to others."""
    with _translated(folder):
        if folder.is_dir():
            check_private(folder, FOLDER_MODE)
            return
        if folder.exists():
            raise InvalidInput("folder of keys", str(folder), "is not a folder")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=FOLDER_MODE)
            folder.chmod(FOLDER_MODE)
            sync_folder(folder.parent)


def check_private(path: Path, mode: int) -> None:
    """`PathRefused` when others than the owner have any right to the file or folder."""
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise PathRefused(str(path), f"others may read it: chmod {mode:o} it, and rotate the keys if others have")


def write_file(path: Path, data: bytes, mode: int) -> None:
    """The file, durably: whole under its name, or not there. The caller holds the lock of its folder."""
    new = path.with_name(f"{path.name}.new")
    with _translated(path):
        new.unlink(missing_ok=True)  # left by a process that was killed
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        new.replace(path)
        sync_folder(path.parent)


def write_new_file(path: Path, data: bytes) -> None:
    """A private file that was not there before, durably. `PathRefused` when anything stands at the path, be it a file,
    a terminal or another device."""
    with _translated(path):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_MODE)
        except FileExistsError as error:
            raise PathRefused(str(path), "something stands there already: name a file that does not exist") from error
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, PRIVATE_MODE)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        sync_folder(path.parent)


def read_file(path: Path) -> bytes | None:
    """The file's bytes; None where there is none."""
    with _translated(path):
        try:
            with path.open("rb") as file:
                data = file.read(KEY_FILE_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
    if len(data) > KEY_FILE_BYTES_MAX:
        raise InvalidInput("key file", str(path), f"is longer than {KEY_FILE_BYTES_MAX} bytes")
    return data


def sync_folder(folder: Path) -> None:
    """Make the names in the folder durable."""
    with _translated(folder):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def held(path: Path) -> Iterator[bool]:
    """Hold this lock file for as long as the block runs; the block is told whether it does, for nobody is waited for.
    The lock ends with the process, however that ends."""
    with _translated(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_MODE)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # none but us holds it
            alone = True
        except BlockingIOError:
            alone = False
        yield alone
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: Path, seconds_max: float) -> Iterator[None]:
    """Hold the folder's lock against other processes and threads; `Busy` when that takes too long."""
    with _translated(folder):
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_MODE)
    try:
        _wait_for(descriptor, folder, time.monotonic() + seconds_max)
        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing would not free it while a forked child has it, too
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, folder: Path, deadline: float) -> None:
    pause = 0.0005
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise Busy(f"another process holds the keys in {folder}") from None
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EngineFailed(f"{error.filename or path}: {error.strerror or error}") from error
