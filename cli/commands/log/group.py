"""`log`: the tenant's Merkle log, and the proofs that an outsider checks without the store."""

from __future__ import annotations

from pathlib import Path

import click

from sealbook.cli.commands.log import adopt, gather, monitor, publish, serve, tiles
from sealbook.cli.ground import file_output, keyring_options
from sealbook.cli.ground.file_output import file_option
from sealbook.cli.ground.keyring_options import keys_option, passphrase_option
from sealbook.cli.ground.options import (
    Verb,
    VerbGroup,
    checkpoint_option,
    format_option,
    run_argument,
    store_log_option,
)
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.publishing.memory import Memory
from sealbook.cli.publishing.signing import LogSigner, check_keys, sign_head
from sealbook.cli.records import lines, objects
from sealbook.cli.screen.safe import safe
from sealbook.cli.serving.tiles import checkpoint_of
from sealbook.journal import ConsistencyProof, InclusionProof, InvalidInput, Log, NotFound, Tenant
from sealbook.journal.errors import printable
from sealbook.journal.keys.public_halves import Purpose
from sealbook.merkle import tree
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.proof_file import ProofFile


@click.group("log", cls=VerbGroup)
def command() -> None:
    """The tenant's Merkle log: an RFC 6962 tree over the heads of its sealed and anchored runs."""


@command.command("head", cls=Verb, examples=("sealbook log head", "sealbook log head -o json"))
@store_log_option
@format_option("text", "json")
@pass_setup
def head(setup: Setup, form: str) -> None:
    """Print the log's origin, size and root."""
    with setup.reading_log() as log, setup.output() as output:
        publish.remark_signed_name(setup, log)
        checkpoint = log.checkpoint()
        if form == "json":
            output.line(objects.text(objects.checkpoint(checkpoint)))
            return
        items = [("origin", safe(checkpoint.origin)), ("size", str(checkpoint.size)), ("root", checkpoint.root.hex())]
        lines.pairs(output, items)


@command.command(
    "checkpoint",
    cls=Verb,
    examples=("sealbook log checkpoint > checkpoint.txt", "sealbook log checkpoint --sign > signed.txt"),
)
@click.option("--sign", is_flag=True, help="Sign it with the log's keys, and print the signed note.")
@keys_option
@passphrase_option
@store_log_option
@format_option("text", "json")
@pass_setup
def checkpoint(setup: Setup, sign: bool, keys: str | None, passphrase_file: str | None, form: str) -> None:
    """Print the checkpoint's three lines, which are what a signature covers.

    A signed checkpoint is a promise: it is kept, and nothing that contradicts it is signed any more. It is not
    published by being printed, and no witness is asked: that is `sealbook log publish`.
    """
    with setup.journal(readonly=not sign) as journal:
        log = setup.log(journal)
        if sign:
            found, text = _signed(setup, log, keys, passphrase_file)
        else:
            publish.remark_signed_name(setup, log)
            found = log.checkpoint()
            text = found.text()
    done = f"size {found.size} of {printable(found.origin)} is signed and kept"
    with setup.report(done) if sign else setup.output() as output:
        if form == "json":
            output.line(objects.text({**objects.checkpoint(found), "text": text}))
        else:
            output.text(text)


def _signed(setup: Setup, log: Log, keys: str | None, passphrase_file: str | None) -> tuple[Checkpoint, str]:
    """The log as it stands, signed, and the signed note."""
    ring = keyring_options.opened(keys)
    check_keys(ring, log)
    protected = any(ring.is_protected(key) for key in ring.signing(Purpose.LOG, log.origin))
    passphrase = keyring_options.passphrase(passphrase_file, what="the log's key", needed=protected)
    memory = Memory(ring.folder, log.origin)
    publish.remark_other_names(setup, ring, [log])
    with memory.held():
        kept = sign_head(log, LogSigner(ring, log.origin, passphrase), memory)
    assert kept.note is not None
    return kept.checkpoint, kept.note.encode().decode()


@command.command(
    "proof",
    cls=Verb,
    examples=(
        "sealbook log proof order-45",
        "sealbook log proof order-45 --size 1 -o json",
        "sealbook log proof order-45 -o tlog-proof --to order-45.tlog-proof",
        "sealbook --store-origin example.com/store log proof order-45 --store-log -o tlog-proof --to FILE",
    ),
)
@run_argument
@click.option("--size", type=int, metavar="N", help="Prove it in the log as it was at this size.")
@checkpoint_option
@file_option("With -o tlog-proof: the file; otherwise it is printed.")
@store_log_option
@format_option("text", "json", "tlog-proof")
@pass_setup
def proof(setup: Setup, run: str, size: int | None, checkpoint: Path | None, target: Path | None, form: str) -> None:
    """Prove that the run's highest leaf stands in the log: RFC 9162 section 2.1.3.

    It proves presence. That the log holds no newer leaf of the run, it does not prove. As tlog-proof (C2SP) it is in
    the latest checkpoint that was published, signatures included: with the run's records (`sealbook run RUN -o
    records`) that is all that `sealbook verify --proof` needs.

    With --store-log, which goes with -o tlog-proof, it leads further: from the tenant's log through its newest head to
    the latest checkpoint that the store log published.
    """
    if form == "tlog-proof":
        if size is not None:
            raise click.UsageError("-o tlog-proof proves at the size of a signed checkpoint, not at --size")
        (_write_store_proof_file if setup.store_log else _write_proof_file)(setup, run, checkpoint, target)
        return
    if setup.store_log:
        raise click.UsageError("--store-log is for -o tlog-proof")
    if checkpoint is not None or target is not None:
        raise click.UsageError("--checkpoint and --to are for -o tlog-proof")
    with setup.reading() as tenant, setup.output() as output:
        found = _proof(tenant, run, size)
        if form == "json":
            output.line(objects.text(objects.inclusion(found)))
            return
        items = [
            ("run", safe(found.run)),
            ("leaf", f"{found.leaf_kind} of record {found.seq} at log position {found.index}"),
            ("head", found.head.hex()),
            *_inner_lines(found),
            ("leaf data", found.leaf_data.hex()),
            ("leaf hash", bytes(found.leaf_hash).hex()),
            ("size", str(found.size)),
            ("root", found.root.hex()),
            *((f"proof {number}", node.hex()) for number, node in enumerate(found.proof)),
        ]
        lines.pairs(output, items)


@command.command("consistency", cls=Verb, examples=("sealbook log consistency 1", "sealbook log consistency 1 -o json"))
@click.argument("old", type=int, metavar="OLD")
@click.option("--size", type=int, metavar="N", help="Prove it of the log as it was at this size.")
@store_log_option
@format_option("text", "json")
@pass_setup
def consistency(setup: Setup, old: int, size: int | None, form: str) -> None:
    """Prove that the log of OLD leaves is the beginning of the log as it stands: RFC 9162 section 2.1.4."""
    with setup.reading_log() as log, setup.output() as output:
        found = log.consistency_proof(old) if size is None else _consistency(log, old, size)
        if form == "json":
            output.line(objects.text(objects.consistency(found)))
            return
        items = [
            ("old size", str(found.old)),
            ("old root", found.old_root.hex()),
            ("new size", str(found.new)),
            ("new root", found.new_root.hex()),
            *((f"proof {number}", node.hex()) for number, node in enumerate(found.proof)),
        ]
        lines.pairs(output, items)


def _consistency(log: Log, old: int, size: int) -> ConsistencyProof:
    """The proof between two sizes that the log has reached. Stored nodes never change, so they need no one snapshot."""
    whole = log.checkpoint().size
    if not 0 <= old <= size <= whole:
        raise InvalidInput("size", size, f"must be from the old size, {old}, to the log's, {whole}")
    read = log.tree_nodes
    proof = tree.consistency_proof(old_size=old, new_size=size, read=read)
    return ConsistencyProof(old, size, tree.root(old, read), tree.root(size, read), proof)


def _proof(tenant: Tenant, run: str, size: int | None) -> InclusionProof:
    found = tenant.inclusion_proof(run, size)
    if found is None:
        raise NotFound("leaf of run" if size is None else f"leaf below size {size} of run", run)
    return found


def _inner_lines(found: InclusionProof) -> list[tuple[str, str]]:
    """Of a run in an anchor batch: its entry, and the path to the root that the batch's leaf holds."""
    if found.inner is None or found.inner_entry is None:
        return []
    return [
        ("entry", found.inner_entry.hex()),
        ("in batch", f"entry {found.inner.index} of {found.inner.size}"),
        *((f"inner {number}", node.hex()) for number, node in enumerate(found.inner.proof)),
    ]


def _write_proof_file(setup: Setup, run: str, checkpoint: Path | None, target: Path | None) -> None:
    """Write the `.tlog-proof` of the run's highest leaf in the log of the signed checkpoint."""
    with setup.reading() as tenant:
        note = tiles.published_note(tenant, checkpoint)
        found = _proof(tenant, run, checkpoint_of(note).size)
    with file_output.opened(target, mode=file_output.PUBLIC_MODE) as stream:
        extra = None if found.inner is None else found.inner.encode()
        stream.write(ProofFile(found.index, tuple(found.proof), note, extra).encode())


def _write_store_proof_file(setup: Setup, run: str, checkpoint: Path | None, target: Path | None) -> None:
    """The same up to the store log's signed checkpoint, through the tenant's newest head below its size."""
    with setup.journal(readonly=True) as journal:
        log = journal.store_log
        note = tiles.published_note(log, checkpoint)
        found = log.inclusion_proof(setup.tenant, run, checkpoint_of(note).size)
    if found is None:
        raise NotFound("leaf below the tenant's newest published head of run", run)
    with file_output.opened(target, mode=file_output.PUBLIC_MODE) as stream:
        stream.write(ProofFile(found.index, tuple(found.proof), note, found.head.encode()).encode())


command.add_command(adopt.command)
command.add_command(gather.command)
command.add_command(monitor.command)
command.add_command(tiles.command)
command.add_command(serve.command)
command.add_command(publish.command)
