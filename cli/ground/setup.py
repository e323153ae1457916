"""What the options before the verb say, and how a verb opens the store that they name."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sealbook.cli.screen import output
from sealbook.cli.screen.output import Output
from sealbook.cli.screen.safe import line

if TYPE_CHECKING:
    from sealbook.journal import Journal, Log, Tenant


DEFAULT_TENANT = "default"
TENANTS_TOLD = 5  # of a store that may have many more


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
    store_origin: str | None = None
    store_log: bool = False
    """Whether the verb is about the store log, and not about a tenant's."""

    @contextmanager
    def journal(self, *, readonly: bool, create: bool = False) -> Iterator[Journal]:
        """The store, open for as long as the verb runs."""
        from sealbook.journal import InvalidInput, Journal

        try:
            opened = Journal.open(
                self.folder, create=create, readonly=readonly, origin=self.origin, store_origin=self.store_origin
            )
        except InvalidInput as error:  # of what stands before the verb
            raise click.UsageError(str(error)) from error
        with opened as journal:
            yield journal

    @contextmanager
    def reading(self, *, to_come: bool = False) -> Iterator[Tenant]:
        """The tenant, for a verb that only reads; one that was named has a record, unless it may be one `to_come`."""
        with self.journal(readonly=True) as journal:
            yield self.new_tenant(journal) if to_come else self.known_tenant(journal)

    def known_tenant(self, journal: Journal) -> Tenant:
        """The tenant, for a verb that is about what it has. `NotFound` for one that was named and has no record; the
        default tenant of a new store is empty."""
        from sealbook.journal import NotFound

        names = journal.tenants()
        if self.tenant != DEFAULT_TENANT and journal.tenant(self.tenant).name not in names:
            raise NotFound("tenant", self.tenant)
        return self._remarked(journal, names)

    def new_tenant(self, journal: Journal) -> Tenant:
        """The tenant, which may have no record. Where others have, that is remarked: --tenant may have been forgotten,
        or its name misspelt."""
        return self._remarked(journal, journal.tenants())

    def _remarked(self, journal: Journal, names: Sequence[str]) -> Tenant:
        tenant = journal.tenant(self.tenant)
        if names and self.tenant not in names:
            more = f" and {len(names) - TENANTS_TOLD} more" if len(names) > TENANTS_TOLD else ""
            self.remark(f"tenant {self.tenant} has no records; this store has: {', '.join(names[:TENANTS_TOLD])}{more}")
        return tenant

    @contextmanager
    def writing(self, *, known: bool = False) -> Iterator[Tenant]:
        """The tenant, for a verb that writes; with `known`, to what must be there already."""
        with self.journal(readonly=False) as journal:
            yield self.known_tenant(journal) if known else self.new_tenant(journal)

    def log(self, journal: Journal) -> Log:
        """The log that the verb is about: the tenant's, or the store log. `NotFound` as `known_tenant`."""
        return journal.store_log if self.store_log else self.known_tenant(journal)

    def logs(self, journal: Journal) -> Sequence[Log]:
        """The same for a verb that is about all tenants' logs unless --tenant is given."""
        if self.store_log or self.tenant_given:
            return [self.log(journal)]
        return [journal.tenant(name) for name in journal.tenants()]

    def every_log(self, journal: Journal) -> list[Log]:
        """The logs of all tenants, and the store log where one is named. A row that names no tenant is a finding of
        `check` and no log."""
        from sealbook.journal import InvalidName

        logs: list[Log] = []
        for name in journal.tenants():
            with suppress(InvalidName):
                logs.append(journal.tenant(name))
        return logs if self.store_origin is None else [*logs, journal.store_log]

    @contextmanager
    def reading_log(self) -> Iterator[Log]:
        """The log that the verb is about, for a verb that only reads."""
        with self.journal(readonly=True) as journal:
            yield self.log(journal)

    def log_origin(self) -> str:
        """The origin of that log as its store has it, or as it would be where no store is."""
        from sealbook.journal import StoreMissing
        from sealbook.journal.schema.origins import check_store_origin, tenant_origin

        try:
            with self.journal(readonly=True) as journal:
                return (journal.store_log if self.store_log else journal.tenant(self.tenant)).origin
        except StoreMissing:
            if self.store_log:
                return check_store_origin(self.store_origin, self.origin, {})
            return tenant_origin(self.origin, self.tenant)

    def output(self, *, paged: bool = False, at_end: bool = False) -> AbstractContextManager[Output]:
        """Where the verb prints; listings may be paged, and the pager begin at the end."""
        return output.opened(color=self.color, paged=paged and self.paged, at_end=at_end)

    @contextmanager
    def report(self, done: str) -> Iterator[Output]:
        """Where a verb prints what it has committed. An output that fails says so and takes nothing of it back."""
        from sealbook.cli.ground.exit_codes import Unprinted

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
