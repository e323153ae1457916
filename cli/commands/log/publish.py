"""`log publish`: sign the logs, have them cosigned, publish them; once, or as a small daemon."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sealbook.cli.ground import exit_codes, keyring_options
from sealbook.cli.ground.keyring_options import keys_option, passphrase_option
from sealbook.cli.ground.options import Verb, store_log_option
from sealbook.cli.ground.setup import Setup, complain, pass_setup
from sealbook.cli.ground.times import duration
from sealbook.cli.publishing import policy_file
from sealbook.cli.publishing.policy_file import default_path
from sealbook.cli.screen import safe
from sealbook.journal import NotFound, Tenant
from sealbook.journal.keys.public_halves import KeyState, Purpose
from sealbook.journal.schema.origins import tenant_origin

if TYPE_CHECKING:
    from sealbook.cli.publishing.memory import Memory
    from sealbook.cli.publishing.publisher import PublishingRules, Turn
    from sealbook.journal import Log
    from sealbook.journal.keys.ring import Keyring

Function = TypeVar("Function", bound=Callable[..., Any])

REFRESH = "6h"


def policy_option(function: Function) -> Function:
    """`--policy`: the file that says who witnesses."""
    return click.option(
        "--policy",
        "policy",
        envvar="SEALBOOK_POLICY",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="The witnesses and their quorum (C2SP tlog-policy); SEALBOOK_POLICY stands in. Else that of the keys.",
    )(function)


def fail_open_option(function: Function) -> Function:
    """`--fail-open`."""
    return click.option(
        "--fail-open", is_flag=True, help="Publish although the quorum is not met; it is shown wherever it happened."
    )(function)


@click.command(
    "publish",
    cls=Verb,
    examples=(
        "sealbook log publish --once",
        "sealbook log publish --every 30s --policy policy.txt",
        "sealbook --tenant acme log publish --once --fail-open",
        "sealbook --store-origin example.com/store log publish --store-log --every 30s",
    ),
)
@click.option("--once", is_flag=True, help="One turn, which is what happens without --every.")
@click.option("--every", type=duration, metavar="TIME", help="Turn after turn, until SIGINT or SIGTERM: 30s, 10m.")
@keys_option
@policy_option
@click.option("--no-policy", "alone", is_flag=True, help="Ask no witness: publish by the log's signature alone.")
@fail_open_option
@click.option(
    "--refresh",
    type=duration,
    default=REFRESH,
    show_default=True,
    metavar="TIME",
    help="Ask for a new cosignature of a log that stands still when the old one has this age.",
)
@passphrase_option
@store_log_option
@pass_setup
def command(
    setup: Setup,
    once: bool,
    every: int | None,
    keys: str | None,
    policy: Path | None,
    alone: bool,
    fail_open: bool,
    refresh: int,
    passphrase_file: str | None,
) -> int:
    """Sign each tenant's log as it stands, have it cosigned by the witnesses of the policy, and publish it.

    It covers all tenants, or the one that --tenant names. Without a quorum nothing is published: what outsiders get is
    then the checkpoint before. A witness that contradicts the log stops its publishing, and the exit code is 3:
    `sealbook witness status` says why, and `sealbook witness resolve` lets it go on.

    With --store-log it is the store log alone, into which the heads of the tenants' logs are brought first.
    """
    if once and every is not None:
        raise click.UsageError("--once and --every TIME exclude each other")
    if alone and policy is not None:
        raise click.UsageError("--policy and --no-policy exclude each other")

    ring = keyring_options.opened(keys)
    file = None if alone else (policy or default_path(ring.folder))
    found = Policies(file, named=policy is not None, fail_open=fail_open, refresh=refresh, patient=every is not None)
    return publish(setup, ring, found.rules, asks=found.ask(), every=every, passphrase_file=passphrase_file)


@dataclass(frozen=True, slots=True)
class Policies:
    """Where the rules of publishing come from. `file` is None where no witness is to be asked."""

    file: Path | None
    named: bool
    fail_open: bool
    refresh: int | None
    patient: bool
    """Leave witnesses that failed alone for a while; a person who asks once wants an answer now."""

    def ask(self) -> bool:
        """Whether anybody is to be asked, as the file is now."""
        found = None if self.file is None else policy_file.read(self.file)
        return found is not None and bool(policy_file.addresses(found))

    def rules(self, memory: Memory) -> PublishingRules:
        """The rules for the log of this memory, from the file as it is now."""
        from sealbook.cli.publishing.publisher import NOBODY, PublishingRules

        found = None if self.file is None else policy_file.read(self.file)
        # A policy that was moved away must not turn into "nobody need cosign".
        lost = found is None and self.file is not None
        if lost and self.named:
            raise policy_file.PolicyRefused(str(self.file), 0, "there is no such file")
        if lost and any(known.cosigned for known in memory.known().values()):
            raise NotFound(f"policy of {memory.origin}, which witnesses have cosigned, at", str(self.file))
        return PublishingRules(
            found or NOBODY, fail_open=self.fail_open, refresh_seconds=self.refresh, patient=self.patient
        )


def publish(
    setup: Setup,
    ring: Keyring,
    rules: Callable[[Memory], PublishingRules],
    *,
    asks: bool,
    every: int | None,
    passphrase_file: str | None,
) -> int:
    """Publish the logs that the setup names; the exit code. `asks` says that witnesses will be asked."""
    import trio

    from sealbook.cli.publishing import daemon, transport

    if asks:
        try:
            transport.check_installed()
        except transport.ClientMissing as error:
            raise click.UsageError(str(error)) from error
    with setup.journal(readonly=False) as journal:

        def logs() -> Sequence[Log]:
            return setup.logs(journal)

        passphrase = _passphrase(ring, logs(), passphrase_file)
        remark_none(setup, logs())
        remark_other_names(setup, ring, logs())
        codes: list[int] = []

        async def work() -> None:
            async with transport.http() as http:
                runner = daemon.Daemon(
                    ring=ring,
                    logs=logs,
                    rules=rules,
                    transport=http,
                    clock=lambda: int(time.time()),
                    told=Teller(setup, repeated=every is not None).told,
                    passphrase=passphrase,
                )
                if every is None:
                    codes.append(await runner.once())
                else:
                    await runner.every(every)

        try:
            ended = trio.run(daemon.until_signalled, work)
        except BaseExceptionGroup as group:
            raise daemon.first_of(group) from group
    if ended:
        return codes[0]
    return exit_codes.INTERRUPTED if every is None else exit_codes.OK


def remark_none(setup: Setup, logs: Sequence[Log]) -> None:
    """Say that there is nothing to speak of."""
    if not logs:
        setup.remark("the store has no record yet, and so no log")


def remark_signed_name(setup: Setup, log: Log) -> None:
    """Say that the log was signed under another name than the one that it would have now."""
    signed = log.signed_checkpoint()
    if signed is not None and signed.checkpoint.origin != log.origin:
        option = "--origin" if isinstance(log, Tenant) else "--store-origin"
        size, name = signed.checkpoint.size, signed.checkpoint.origin
        setup.remark(f"{log.origin}: size {size} was signed as {name}: {option} before the verb names it")


def remark_other_names(setup: Setup, ring: Keyring, logs: Iterable[Log]) -> None:
    """Say of each log that is about to be signed for the first time, which fixes its name, under which other names the
    ring has keys for the same tenant: the name may not be the one that was meant."""
    first = {log.name: log.origin for log in logs if isinstance(log, Tenant) and log.signed_checkpoint() is None}
    # A log that goes on under another name was given it on purpose.
    first = {tenant: origin for tenant, origin in first.items() if origin == tenant_origin(setup.origin, tenant)}
    others: dict[str, set[str]] = {tenant: set() for tenant in first}
    for key in ring.keys() if first else ():
        if key.purpose is Purpose.LOG and key.state is KeyState.ACTIVE and key.tenant in others:
            others[key.tenant].add(key.name)
    for tenant, origin in first.items():
        if names := sorted(others[tenant] - {origin}):
            setup.remark(f"{origin}: its first signature; the keys know tenant {tenant} as {', '.join(names)} too")


def _passphrase(ring: Keyring, logs: Iterable[Log], file: str | None) -> bytes | None:
    keys = [key for log in logs for key in ring.named(log.origin)]
    needed = any(key.purpose is Purpose.LOG and key.state is KeyState.ACTIVE and ring.is_protected(key) for key in keys)
    return keyring_options.passphrase(file, what="the logs' keys", needed=needed)


@dataclass
class Teller:
    """Prints how turns end: what was published on standard output, what was not, and why, on standard error.

    Where turns are repeated, what has been said of a log is not said again.
    """

    setup: Setup
    repeated: bool
    _said: dict[str, list[str]] = field(default_factory=dict)

    def told(self, origin: str, ended: Turn | Exception) -> None:
        """Say it."""
        from sealbook.cli.publishing.publisher import PublishingState

        if isinstance(ended, Exception):
            text = exit_codes.line_of(ended)
            bad, lines = True, [text if origin in text else f"{origin}: {text}"]
        elif ended.state in (PublishingState.EMPTY, PublishingState.UNCHANGED):
            if not self.repeated:
                what = (
                    "the log has no leaf yet"
                    if ended.state is PublishingState.EMPTY
                    else f"size {ended.size} is published"
                )
                self.setup.remark(f"{origin}: {what}: nothing to do")
            return
        else:
            bad, lines = ended.state is PublishingState.WAITING, _lines(ended)
        if self.repeated and self._said.get(origin) == lines:
            return
        self._said[origin] = lines
        self._print(lines[0], bad)
        for line in lines[1:]:
            complain(line)

    def _print(self, line: str, bad: bool) -> None:
        if bad:
            complain(line)
            return
        with self.setup.report("what was published stands") as output:
            output.line(safe.line(line))


def _lines(turn: Turn) -> list[str]:
    from sealbook.cli.publishing.publisher import PublishingState

    by = f"cosigned by {', '.join(turn.cosigners)}" if turn.cosigners else "cosigned by nobody"
    if turn.state is PublishingState.PUBLISHED:
        by = by if turn.cosigners else "by the log's own signature alone"
        first = f"{turn.origin}: size {turn.size} is published, {by}"
    elif turn.state is PublishingState.WITHOUT_QUORUM:
        first = f"{turn.origin}: size {turn.size} is published WITHOUT ITS QUORUM (--fail-open), {by}"
    else:
        first = f"{turn.origin}: size {turn.size} is signed and waits for its quorum, {by}"
        if turn.unsigned is not None:
            first += f"; size {turn.unsigned} is not signed before a quorum has answered"
    return [first, *(f"{turn.origin}: {name}: {failure}" for name, failure in turn.failures.items())]
