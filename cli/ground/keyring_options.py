"""Where a verb finds the ring of keys, and the passphrase of what it opens there: never from the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from sealbook.journal.keys.ring import Keyring

Function = TypeVar("Function", bound=Callable[..., Any])


def keys_option(function: Function) -> Function:
    """`--keys`: the ring's folder."""
    return click.option(
        "--keys",
        "keys",
        envvar="SEALBOOK_KEYS",
        metavar="DIR",
        help="The folder of the keys, outside of every store; SEALBOOK_KEYS stands in. Else ~/.config/sealbook/keys.",
    )(function)


def passphrase_option(function: Function) -> Function:
    """`--passphrase-file`: the file that holds the passphrase."""
    return click.option(
        "--passphrase-file",
        "passphrase_file",
        envvar="SEALBOOK_PASSPHRASE_FILE",
        metavar="FILE",
        help="The passphrase of private keys, one line; SEALBOOK_PASSPHRASE_FILE stands in. Else you are asked.",
    )(function)


def opened(keys: str | None) -> Keyring:
    """The ring in this folder, or in the one where it is by default."""
    from sealbook.journal.keys.ring import Keyring

    return Keyring(Path(keys) if keys else default_folder())


def default_folder() -> Path:
    """`sealbook/keys` where the user's configuration is (XDG)."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "sealbook" / "keys"


def passphrase(file: str | None, *, what: str, needed: bool, new: bool = False) -> bytes | None:
    """The passphrase: from the file, or else, where one is needed, from the person at the terminal; twice if it is
    `new`. `what` says what it is for."""
    from sealbook.journal.keys.public_halves import WrongPassphrase

    if file is not None:
        return _of_file(Path(file))
    if not needed:
        return None
    if not sys.stdin.isatty():
        raise WrongPassphrase(what, "it needs a passphrase, and nobody can be asked: name a --passphrase-file")
    text: str = click.prompt(f"passphrase of {what}", hide_input=True, confirmation_prompt=new, err=True)
    return text.encode()


def _of_file(file: Path) -> bytes:
    from sealbook.cli.ground import named_files
    from sealbook.journal import InvalidInput

    text = named_files.read(file).removesuffix(b"\n").removesuffix(b"\r")
    if not text or b"\n" in text:
        raise InvalidInput("passphrase file", str(file), "must hold one line that is not empty")
    return text
