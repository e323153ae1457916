"""Answers as files: `--to FILE`, whole under its name or not there, or else standard output, byte for byte."""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])


def file_option(help_text: str) -> Callable[[Function], Function]:
    """`--to`: the file that the answer goes to."""
    return click.option(
        "--to", "target", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help=help_text
    )


PRIVATE_MODE = 0o600  # of what holds records, or says what somebody reads: as private as the store's own files
PUBLIC_MODE = 0o666  # of what is made to be shown, such as proofs: what the umask leaves of it


def check_place(target: Path) -> None:
    """OSError when no file could take this name."""
    folder = target.resolve().parent
    folder.stat()
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


@contextmanager
def opened(target: Path | None, *, mode: int = PRIVATE_MODE) -> Iterator[BinaryIO]:
    """Where to write the answer's bytes. The file takes its name, durably, when the block ends without an error. One
    that takes another's place has that one's mode."""
    if target is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if target.exists() and not target.is_file():  # a terminal, a pipe: nothing takes its place
        with target.open("wb") as stream:
            yield stream
        return
    check_place(target)
    final = target.resolve()
    _clear_away(final)
    new = final.with_name(f".{final.name}.{os.getpid()}.new")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with open(descriptor, "wb") as stream:
            if final.exists():
                os.fchmod(descriptor, stat.S_IMODE(final.stat().st_mode))
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            new.replace(final)
    finally:
        new.unlink(missing_ok=True)
    descriptor = os.open(final.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _clear_away(final: Path) -> None:
    """Remove what was left of this file by a program that was killed: one that still writes holds a lock."""
    for rest in final.parent.glob(f".{glob.escape(final.name)}.*.new"):
        with suppress(OSError), rest.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            rest.unlink()
