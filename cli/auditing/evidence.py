"""What an auditor brings to a store, as files: outside checkpoints, a policy, the public keys of record signers.

Each checkpoint is a constraint of its own. With a policy it must be one that the policy accepts, and with an age be
cosigned no longer ago than that: one that is not counts as a finding and constrains nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sealbook.cli.screen import progress
from sealbook.cli.screen.words import counted

if TYPE_CHECKING:
    from sealbook.journal import Finding, Log
    from sealbook.journal.records.trust import Outside, Trust
    from sealbook.merkle.note import SignedCheckpoint
    from sealbook.merkle.policy import Policy

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
Function = TypeVar("Function", bound=Callable[..., Any])


def desk_options(function: Function) -> Function:
    """The options of `verify` and `audit` that name what the auditor brings."""
    for option in reversed(
        (
            click.option(
                "--checkpoint",
                "checkpoints",
                type=FILE,
                multiple=True,
                metavar="FILE",
                help="A checkpoint from outside that its log must begin with; may be given more than once.",
            ),
            click.option("--policy", type=FILE, metavar="FILE", help="Which logs and witnesses count: a tlog-policy."),
            click.option(
                "--max-age", metavar="AGE", help="Only cosignatures no older count: seconds, or 90m, 36h, 7d."
            ),
            click.option(
                "--keys",
                "signers",
                type=FILE,
                metavar="FILE",
                help="Public keys of record signers in hex, one per line: no others count.",
            ),
            click.option("--require-signatures", is_flag=True, help="A record that is not signed is a finding."),
        )
    ):
        function = option(function)
    return function


progress_option = click.option(
    "--progress",
    "progress_form",
    type=click.Choice(progress.FORMS),
    default="auto",
    show_default=True,
    help="On standard error: a bar on a terminal, or an object of JSON per line.",
)


@dataclass(frozen=True, slots=True)
class Desk:
    """What was brought. `refused` are checkpoints that the auditor's own policy does not accept."""

    trust: Trust
    policy: Policy | None
    age_seconds_max: int | None
    refused: tuple[Finding, ...]


def brought(
    checkpoints: Sequence[Path], policy: Path | None, max_age: str | None, signers: Path | None, required: bool
) -> Desk:
    """Read the files. One that is none of its kind is a usage error: it is the auditor's own."""
    from sealbook.cli.auditing import bundles
    from sealbook.cli.offline import proofs
    from sealbook.cli.publishing import policy_file
    from sealbook.journal.records.trust import Outside, Trust
    from sealbook.merkle.errors import Malformed, VerificationError

    if max_age is not None and policy is None:
        raise click.UsageError("--max-age needs --policy, which says whose cosignatures count")
    source: object = policy
    try:
        known = None if policy is None else policy_file.parse(policy.read_bytes())
        source = "--max-age"
        age = None if max_age is None else proofs.parse_age(max_age)
        source = signers
        keys = None if signers is None else bundles.parse_signers(signers.read_bytes())
    except Malformed as error:
        raise click.ClickException(f"{source}: {error}") from error
    if age is not None and known is not None and known.quorum is None:
        raise click.UsageError("--max-age needs witnesses, who alone state a time: the policy's quorum is none")
    outside: list[Outside] = []
    refused = []
    for file in checkpoints:
        name, data = str(file), file.read_bytes()
        try:
            if known is not None:
                check_fresh(known, bundles.open_note(data, known), age)
            outside.append(Outside(name, bundles.parse_anchor(name, data, None).checkpoint))
        except Malformed as error:
            raise click.ClickException(f"{name}: {error}") from error
        except VerificationError as error:
            refused.append(_finding(None, f"checkpoint {name}: the policy does not accept it: {error}"))
    return Desk(Trust(tuple(outside), keys, required), known, age, tuple(refused))


def check_fresh(policy: Policy, signed: SignedCheckpoint, age_seconds_max: int | None) -> None:
    """The quorum holds with cosignatures no older than this. Raises `VerificationError`."""
    if age_seconds_max is not None:
        policy.check_freshness(signed.cosignatures, now=int(time.time()), age_seconds_max=age_seconds_max)


# --- the store's own checkpoints -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Published:
    """How a log stands in public: its size, the size of its last published checkpoint (None before the first), whether
    the auditor's policy accepts that one (None when that could not be asked), and who cosigned it."""

    name: str
    origin: str
    size: int
    published: int | None
    accepted: bool | None
    cosigned_by: tuple[str, ...]
    fault: str | None

    @property
    def unwitnessed(self) -> int:
        """How many leaves stand above the last published checkpoint, which may be newer than the size was read."""
        return max(self.size - (self.published or 0), 0)


def publications(logs: Sequence[Log], desk: Desk) -> Iterator[Published]:
    """Each log that has leaves, by the last checkpoint that it published."""
    from sealbook.journal import Corrupt
    from sealbook.merkle.checkpoint import Checkpoint
    from sealbook.merkle.errors import VerificationError
    from sealbook.merkle.note import Note

    policy = desk.policy
    for log in logs:
        try:
            head, note = log.checkpoint(), log.published_checkpoint()
        except (Corrupt, ValueError):
            continue  # a finding of the check itself
        if not head.size:
            continue
        size = None if note is None else Checkpoint.parse(Note.parse(note).text).size
        known = policy is not None and any(each.key.name == head.origin for each in policy.logs)
        if note is None or policy is None or not known:
            yield Published(log.name, head.origin, head.size, size, None, (), None)
            continue
        try:
            signed = policy.open(note)
            check_fresh(policy, signed, desk.age_seconds_max)
        except VerificationError as error:
            yield Published(log.name, head.origin, head.size, size, False, (), str(error))
            continue
        keys = {signature.key for signature in signed.cosignatures}
        names = tuple(witness.name for witness in policy.witnesses if witness.key in keys)
        yield Published(log.name, head.origin, head.size, size, True, names, None)


def findings_of(published: Sequence[Published]) -> list[Finding]:
    """Published checkpoints that the policy does not accept."""
    from sealbook.journal.records.names import STORE_LOG

    return [
        _finding(
            None if each.name == STORE_LOG else each.name,
            f"the published checkpoint of {each.origin}, size {each.published}: the policy does not accept it:"
            f" {each.fault}",
        )
        for each in published
        if each.accepted is False
    ]


def open_questions(published: Sequence[Published], desk: Desk) -> Iterator[str]:
    """What stays open of how the logs stand in public, one line each."""
    if desk.policy is None:
        yield "who signed and cosigned the logs' checkpoints, and how old they are: no --policy"
        return
    if desk.age_seconds_max is None and desk.policy.quorum is not None:
        yield "how old the published checkpoints are: no --max-age"
    unknown = [each.origin for each in published if each.published is not None and each.accepted is None]
    if unknown:
        yield f"who signed the checkpoints of {_named(unknown)}: the policy does not know the log"
    private = [each.origin for each in published if each.published is None]
    if private:
        yield f"whether anybody outside has seen {_named(private)}: nothing of it is published"
    for each in published:
        if each.published is not None and each.unwitnessed:
            leaves = counted(each.unwitnessed, "leaf", "leaves")
            yield f"{leaves} of {each.origin} above its last published checkpoint: no witness has seen them"


def _named(origins: Sequence[str]) -> str:
    return origins[0] if len(origins) == 1 else f"{origins[0]} and {counted(len(origins) - 1, 'other log')}"


def _finding(tenant: str | None, what: str) -> Finding:
    from sealbook.journal import Finding

    return Finding(tenant, None, None, None, None, what)
