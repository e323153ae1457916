"""`verify --proof` over files: read them, verify, remember what was accepted, and say what was shown."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sealbook.cli.ground import exit_codes
from sealbook.cli.ground.setup import Setup

if TYPE_CHECKING:
    from sealbook.cli.offline.accepted import Accepted
    from sealbook.cli.offline.heads import Watched
    from sealbook.cli.offline.proofs import Verified
    from sealbook.merkle.policy import Policy
    from sealbook.merkle.proof_file import ProofFile


@dataclass(frozen=True, slots=True)
class OfflineFiles:
    """What is verified, by which policy, and where the verifier remembers what it accepted."""

    proof: Path
    records: Path
    policy: Path
    state: Path | None
    consistency: Path | None
    monitored: Path | None = None


def verify_files(
    setup: Setup, files: OfflineFiles, *, max_age: str | None, sealed: bool, strict: bool, form: str
) -> int:
    """Verify and print; the exit code."""
    verified = _verified(files, _policy(files.policy), max_age, sealed)
    _print(setup, verified, form)
    if verified.uncovered or verified.chain.newer:
        return exit_codes.INCOMPLETE
    return exit_codes.INCOMPLETE if strict and verified.not_checked else exit_codes.OK


def _policy(path: Path) -> Policy:
    from sealbook.cli.publishing import policy_file
    from sealbook.merkle.errors import Malformed

    try:
        return policy_file.parse(path.read_bytes())
    except Malformed as error:  # the auditor's own words, not what is to be verified
        raise click.ClickException(f"{path}: {error}") from error


def _verified(files: OfflineFiles, policy: Policy, max_age: str | None, sealed: bool) -> Verified:
    from sealbook.cli.offline import proofs
    from sealbook.cli.records import record_lines
    from sealbook.merkle.errors import Malformed
    from sealbook.merkle.proof_file import ProofFile

    try:
        age = None if max_age is None else proofs.parse_age(max_age)
    except Malformed as error:
        raise click.UsageError(f"--max-age: {error}") from error
    if age is not None and policy.quorum is None:
        raise click.UsageError("--max-age needs witnesses, who alone state a time: the policy's quorum is none")
    proof = ProofFile.parse(files.proof.read_bytes())
    consistency = None if files.consistency is None else proofs.parse_consistency(files.consistency.read_bytes())
    with files.records.open("rb") as stream:
        chain = proofs.chain_of(record_lines.read(stream))
    watched = None if files.monitored is None else _watched(files.monitored, proof)
    with _memory(files.state) as memory:
        verified = proofs.verify(
            chain,
            proof,
            policy,
            must_seal=sealed,
            now=int(time.time()),
            age_seconds_max=age,
            seen=memory.seen(proofs.origin_of(proof)),
            consistency=consistency,
            watched=watched,
        )
        memory.accept(verified.signed, proven=consistency is not None)
    return verified


def _watched(path: Path, proof: ProofFile) -> Watched:
    """What the monitor's state says of the place of the proof's head. The state must be of the same store log."""
    from sealbook.cli.monitoring.state import MonitorState
    from sealbook.cli.offline import heads, proofs

    head, origin = heads.head_proof(proof), proofs.origin_of(proof)
    if head is None:
        raise click.UsageError("--monitored is for a proof through a store log: `sealbook log proof RUN --store-log`")
    with MonitorState.opened(path) as state:
        seen = state.latest()
        if seen is None or seen.checkpoint.origin != origin:
            raise click.UsageError(f"--monitored: {path} does not follow {origin}")
        leaf = state.at(seen.number, proof.index)
        return heads.Watched(seen.checkpoint.size, leaf, state.monitored(seen.number, head.head.tag))


@contextmanager
def _memory(path: Path | None) -> Iterator[Accepted]:
    """What was accepted before; what was accepted within is durable afterwards. One verifier at a time, and the file is
    its owner's alone: who may write it decides what counts as seen."""
    from sealbook.cli.offline.accepted import Accepted
    from sealbook.journal.keys import private_files

    if path is None:
        yield Accepted()
        return
    path = path.resolve()
    descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        before = path.read_bytes() if path.exists() else None
        memory = Accepted() if before is None else Accepted.parse(before)
        yield memory
        if memory.encode() != before:
            private_files.write_file(path, memory.encode(), private_files.PRIVATE_MODE)
    finally:
        os.close(descriptor)


def _print(setup: Setup, verified: Verified, form: str) -> None:
    from sealbook.cli.offline import proofs
    from sealbook.cli.records import objects
    from sealbook.cli.screen.safe import safe

    with setup.output() as output:
        if form == "json":
            output.line(objects.text(proofs.as_object(verified)))
            return
        first, *others = proofs.as_lines(verified, safe)
        output.line(output.paint(first, "green"))
        for line in others:
            output.line(line)
        for line in verified.not_checked:
            output.line(output.paint(f"not checked: {line}", "bold"))
