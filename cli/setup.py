"""What the options before the verb say, and how a verb opens the store that they name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sealbook.cli.rendering import output
from sealbook.cli.rendering.output import Output
from sealbook.cli.rendering.safe import line

if TYPE_CHECKING:
    from sealbook.journal import Journal, Tenant


@dataclass(frozen=True, slots=True)
class Setup:
    """The store's folder, the tenant and the log's origin, and how to print."""

    folder: Path
    tenant: str
    tenant_given: bool
    origin: str
    paged: bool
    color: str
    quiet: bool
    own_process: bool = False
    """Whether this process is the program's and nobody else's, so that a verb may fork it."""

    @contextmanager
    def journal(self, *, readonly: bool, create: bool = False) -> Iterator[Journal]:
        """The store, open for as long as the verb runs."""
        from sealbook.journal import Journal

        with Journal.open(self.folder, create=create, readonly=readonly, origin=self.origin) as journal:
            yield journal

    @contextmanager
    def reading(self) -> Iterator[Tenant]:
        """The tenant, for a verb that only reads."""
        with self.journal(readonly=True) as journal:
            yield journal.tenant(self.tenant)

    @contextmanager
    def writing(self) -> Iterator[Tenant]:
        """The tenant, for a verb that writes."""
        with self.journal(readonly=False) as journal:
            yield journal.tenant(self.tenant)

    def output(self, *, paged: bool = False) -> AbstractContextManager[Output]:
        """Where the verb prints; listings may be paged."""
        return output.opened(color=self.color, paged=paged and self.paged)

    @contextmanager
    def report(self, done: str) -> Iterator[Output]:
        """Where a verb prints what it has committed. An output that fails says so and takes nothing of it back."""
        from sealbook.cli.exit_codes import Unprinted

        try:
            with self.output() as output:
                yield output
        except BrokenPipeError:
            raise
        except OSError as error:
            raise Unprinted(done, error) from error

    def remark(self, text: str) -> None:
        """Say something beside the answer, on standard error, unless `-q` forbids it."""
        if not self.quiet:
            complain(text)


def complain(text: str) -> None:
    """One line on standard error, safe for a terminal."""
    if sys.stderr is not None:
        sys.stderr.write(f"sealbook: {line(text)}\n")
        sys.stderr.flush()


pass_setup = click.make_pass_decorator(Setup)
