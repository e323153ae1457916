"""`log monitor`: follow a log in public, and say which leaf is the newest of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sealbook.cli.ground import exit_codes
from sealbook.cli.ground.options import Verb, format_option
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.ground.urls import is_base
from sealbook.cli.monitoring import state as monitor_state
from sealbook.cli.offline import proofs
from sealbook.cli.publishing import policy_file
from sealbook.cli.records import objects, record_lines
from sealbook.cli.screen.safe import safe
from sealbook.cli.screen.words import counted
from sealbook.journal import InvalidInput, NotFound
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.errors import Malformed, VerificationError
from sealbook.merkle.keys import VerifierKey
from sealbook.merkle.policy import Policy, PolicyLog

if TYPE_CHECKING:
    from sealbook.cli.monitoring.monitor import Visit
    from sealbook.cli.monitoring.state import MonitorState, Newest
    from sealbook.cli.offline.proofs import Chain
    from sealbook.cli.serving.tiles import Folder
    from sealbook.merkle.policy import Policy

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


def place(value: str) -> str:
    """A folder, or a URL under which one is served."""
    if "://" in value and not is_base(value):
        raise click.BadParameter(f"{value!r} is neither a folder nor an http or https URL")
    return value


@click.command(
    "monitor",
    cls=Verb,
    examples=(
        "sealbook log monitor tiles --state seen.db --policy policy.txt",
        "sealbook log monitor tiles --state seen.db --policy policy.txt --run order-45 --records order-45.records",
    ),
)
@click.argument("where", type=place, metavar="DIR|URL")
@click.option(
    "--state",
    "state_file",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="FILE",
    help="Remembers the log: every leaf, and the last checkpoint. It comes into being.",
)
@click.option("--policy", type=FILE, metavar="FILE", help="Which log and witnesses count: a tlog-policy.")
@click.option("--vkey", "vkeys", multiple=True, metavar="KEY", help="A verifier key of the log, where nobody cosigns.")
@click.option("--run-tag", metavar="HEX", help="Print the newest leaf with this tag.")
@click.option("--run", metavar="RUN", help="With --records: print the newest leaf of this run, held to its records.")
@click.option("--records", type=FILE, metavar="FILE", help="The run's records: `sealbook run RUN -o records`.")
@click.option("--size", type=int, metavar="N", help="The newest leaf as of this size, by default the log's.")
@format_option("text", "json")
@pass_setup
def command(
    setup: Setup,
    where: str,
    state_file: Path,
    policy: Path | None,
    vkeys: tuple[str, ...],
    run_tag: str | None,
    run: str | None,
    records: Path | None,
    size: int | None,
    form: str,
) -> int:
    """Read every leaf that the log has published since the last visit, and hold the log to its rules.

    The log is a folder of tiles or a URL that serves one (C2SP tlog-tiles). It must have grown and nothing else: one
    that is smaller than before, forked, or breaks a rule is refused with exit code 3, and what is remembered stays. A
    log that goes on under another origin is followed when its first leaf states the checkpoint remembered.

    The newest leaf of a run says whether an older one is being offered as the newest. Runs that are anchored many at a
    time have no leaf of their own.

    In a store log each leaf says what a tenant's log had come to, and must extend the leaf of that tenant before it:
    the proof is computed from the tenants' hash tiles, which `sealbook log tiles --store-log` and `log serve
    --store-log` put beside the store log's own. Where they are missing the tenant is named as not monitored, and the
    exit code is 1; a tenant's log that was forked is named, and the exit code is 3.
    """
    from sealbook.cli.monitoring import monitor

    if (run is None) != (records is None) or (run is not None and run_tag is not None):
        raise click.UsageError("--run goes with --records, and without --run-tag")
    if size is not None and run is None and run_tag is None:
        raise click.UsageError("--size goes with --run or --run-tag")
    trusted = trusted_policy(policy, vkeys)
    chain = None if records is None or run is None else _chain(run, records)
    tag = chain.run_tag if chain is not None else None if run_tag is None else _tag(run_tag)
    with _source(where) as source:
        if not state_file.exists():
            monitor.current(source, trusted, where)  # of a log that is not there nothing comes into being
        with monitor_state.MonitorState.opened(state_file) as state:
            found = monitor.visit(source, trusted, state, where)
            newest = None if tag is None else _newest(state, found, tag, size)
    if tag is not None and newest is None:
        raise NotFound(f"newest leaf below size {found.checkpoint.size if size is None else size} with tag", tag.hex())
    if chain is not None and newest is not None:
        _check_records(chain, newest)
    _print(setup, found, newest, chain, form)
    return exit_codes.INCOMPLETE if found.unmonitored else exit_codes.OK


@contextmanager
def _source(where: str) -> Iterator[Folder]:
    """The log there; a client that is not installed is told as by every other verb that needs it."""
    from sealbook.cli.monitoring import monitor
    from sealbook.cli.publishing.transport import ClientMissing

    try:
        with monitor.source_of(where) as source:
            yield source
    except ClientMissing as error:
        raise click.UsageError(str(error)) from error


def trusted_policy(path: Path | None, vkeys: tuple[str, ...]) -> Policy:
    """Whom the caller trusts: the policy in a file, or the keys of logs that nobody cosigns."""
    if (path is None) == (not vkeys):
        raise click.UsageError("say whom to trust: --policy FILE, or --vkey KEY")
    try:
        if path is not None:
            return policy_file.parse(path.read_bytes())
        return Policy(tuple(PolicyLog(VerifierKey.parse(key)) for key in vkeys), (), (), None)
    except Malformed as error:  # the monitor's own words, not what is to be verified
        raise click.ClickException(str(error) if path is None else f"{path}: {error}") from error


def _tag(text: str) -> bytes:
    try:
        tag = bytes.fromhex(text)
    except ValueError:
        tag = b""
    if len(tag) != 32:
        raise click.UsageError(f"--run-tag is 64 hex digits, not {text!r}")
    return tag


def _chain(run: str, records: Path) -> Chain:
    with records.open("rb") as stream:
        chain = proofs.chain_of(record_lines.read(stream))
    if chain.run != run:
        raise VerificationError(f"the records are those of run {chain.run!r}, not of {run!r}")
    return chain


def _newest(state: MonitorState, found: Visit, tag: bytes, size: int | None) -> Newest | None:
    size = found.checkpoint.size if size is None else size
    if not 0 <= size <= found.checkpoint.size:
        raise InvalidInput("size", size, f"must be from 0 to the log's size, {found.checkpoint.size}")
    return state.newest(found.number, tag, size)


def _check_records(chain: Chain, newest: Newest) -> None:
    """The records must reach as far as the newest leaf, and be those that it attests."""
    leaf, count = newest.leaf, len(chain.heads)
    assert isinstance(leaf, LeafEntry)
    kind = leaf.type.name.lower()
    where = f"the newest leaf of the run, at log position {newest.position}, is the {kind} of record {leaf.seq}"
    if leaf.seq > count:
        raise VerificationError(f"{where}: the records end at {count}, so they are not all there were")
    if leaf.head != chain.heads[leaf.seq - 1]:
        raise VerificationError(f"{where}, and attests another hash than that record's")
    if leaf.type is LeafType.SEAL and (leaf.seq < count or not chain.final):
        raise VerificationError(f"{where}, and the records do not end there in a conclusion that seals")


def _print(setup: Setup, found: Visit, newest: Newest | None, chain: Chain | None, form: str) -> None:
    from sealbook.cli.monitoring.monitor import MISSING_MAX

    checkpoint = found.checkpoint
    with setup.output() as output:
        if form == "json":
            answer: dict[str, Any] = {
                **objects.checkpoint(checkpoint),
                "old_size": found.old_size,
                "went_on_from": found.went_on_from,
                "lost": list(found.lost),
                "monitored": found.monitored,
                "unmonitored": [tag.hex() for tag in found.unmonitored],
                "leaf": None if newest is None else _leaf_object(newest),
            }
            output.line(objects.text(answer))
            return
        output.line(f"{safe(checkpoint.origin)}: size {found.old_size} to {checkpoint.size}, every leaf checked")
        if found.went_on_from is not None:
            output.line(f"it goes on from {safe(found.went_on_from)}, as its first leaf states")
        if found.lost:
            named = ", ".join(map(str, found.lost[:MISSING_MAX])) + (", …" if len(found.lost) > MISSING_MAX else "")
            lost = counted(len(found.lost), "leaf of that log is", "leaves of that log are")
            what = f"{lost} not in this one: {'position' if len(found.lost) == 1 else 'positions'} {named}"
            output.line(output.paint(what, "red", "bold"))
        if found.monitored:
            output.line(f"monitored: the logs of {counted(found.monitored, 'tenant')}, each as it was and longer")
        for tag in found.unmonitored:
            output.line(output.paint(f"not monitored: tenant tag {tag.hex()}: its tiles are not served", "bold"))
        if newest is not None:
            output.line(_leaf_line(newest))
        if chain is not None and newest is not None:
            output.line(f"the records are those that it attests, as far as record {_leaf_object(newest)['seq']}")


def _leaf_object(newest: Newest) -> dict[str, Any]:
    leaf = newest.leaf
    if isinstance(leaf, LeafEntry):
        about = {"leaf_kind": leaf.type.name.lower(), "tag": leaf.run_tag.hex(), "seq": leaf.seq}
        return {**about, "head": leaf.head.hex(), "index": newest.position, "as_of_size": newest.size}
    about = {"leaf_kind": "tenant-head", "tag": leaf.tag.hex(), "size": leaf.size}
    return {**about, "root": leaf.root.hex(), "index": newest.position, "as_of_size": newest.size}


def _leaf_line(newest: Newest) -> str:
    leaf = newest.leaf
    where = f"at log position {newest.position}, as of size {newest.size}"
    if isinstance(leaf, LeafEntry):
        return f"newest leaf: {leaf.type.name.lower()} of record {leaf.seq} {where}"
    return f"newest leaf: head of size {leaf.size} {where}"
