"""Answers as files: `--to FILE`, whole under its name or not there, or else standard output, byte for byte."""

from __future__ import annotations

import fcntl
import glob
import os
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


@contextmanager
def opened(target: Path | None) -> Iterator[BinaryIO]:
    """Where to write the answer's bytes. The file takes its name, durably, when the block ends without an error."""
    if target is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if target.exists() and not target.is_file():  # a terminal, a pipe: nothing takes its place
        with target.open("wb") as stream:
            yield stream
        return
    final = target.resolve()
    _clear_away(final)
    new = final.with_name(f".{final.name}.{os.getpid()}.new")
    try:
        with new.open("wb") as stream:
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
