"""`verify --proof`: records, leaf, root, signatures and quorum from files alone, and how each of them may lie."""

from __future__ import annotations

import base64
import fcntl
import io
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from published_log import PublishedLog, log_signer, publish, signed_note, witness_signer

from sealbook.cli.main import cli
from sealbook.cli.offline import files as offline_files
from sealbook.cli.offline import proofs
from sealbook.cli.offline.accepted import Accepted
from sealbook.cli.offline.proofs import Chain
from sealbook.cli.records import record_lines
from sealbook.journal import Journal, UnknownVersion, entries
from sealbook.journal.records.chain import chain_hash
from sealbook.journal.records.row import Row
from sealbook.journal.records.signatures import Ed25519Signer
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.entry import LeafEntry, LeafType
from sealbook.merkle.errors import Malformed, VerificationError
from sealbook.merkle.keys import Algorithm
from sealbook.merkle.note import Note
from sealbook.merkle.policy import Policy
from sealbook.merkle.proof_file import ProofFile
from sealbook.merkle.tree import Node

ORIGIN = "sealbook"
WITNESSES = (witness_signer("w1.example"), witness_signer("w2.example", Algorithm.MLDSA44_COSIGNATURE))
POLICY = (
    f"log {log_signer(ORIGIN).key} https://log.example\n"
    f"witness w1 {WITNESSES[0].key} https://w1.example\n"
    f"witness w2 {WITNESSES[1].key} https://w2.example\n"
    "group both all w1 w2\nquorum both\n"
)
ALONE = f"log {log_signer(ORIGIN).key}\nquorum none\n"
OTHER_RUN = [entries.admitted(), entries.note("another"), entries.concluded("completed")]


@dataclass
class Case:
    """A store, a folder for what it gives away, and the program without that store."""

    folder: Path
    store: Path

    def issue(self, *args: str) -> Result:
        return _run("-D", str(self.store), *args)

    def checkpoint(self) -> Checkpoint:
        with Journal.open(self.store, readonly=True) as journal:
            return journal.tenant().checkpoint()

    def publish(self, *, signer_seed: int = 1, at: int | None = None, witnesses: bool = True) -> Path:
        """The store's log as it stands, signed and cosigned."""
        note = self.folder / "note"
        more = {} if at is None else {"at": at}
        cosigners = WITNESSES if witnesses else ()
        note.write_bytes(signed_note(self.checkpoint(), *cosigners, signer=log_signer(ORIGIN, signer_seed), **more))
        return note

    def prove(self, run: str, name: str = "p") -> Path:
        target = self.folder / f"{name}.tlog-proof"
        args = ("log", "proof", run, "-o", "tlog-proof", "--checkpoint", str(self.folder / "note"))
        result = self.issue(*args, "--to", str(target))
        assert result.exit_code == 0, result.stderr
        return target

    def records(self, run: str, name: str = "r") -> Path:
        target = self.folder / f"{name}.records"
        result = self.issue("run", run, "-o", "records", "--to", str(target))
        assert result.exit_code == 0, result.stderr
        return target

    def verify(self, proof: Path, records: Path, *args: str, policy: str = POLICY) -> Result:
        (self.folder / "policy").write_text(policy)
        files = ("--proof", str(proof), "--records", str(records), "--policy", str(self.folder / "policy"))
        return _run("-D", str(self.folder / "no such store"), "verify", *files, *args)


def _run(*args: str) -> Result:
    result = CliRunner().invoke(cli, list(args), prog_name="sealbook")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def case(store: Path, tmp_path: Path) -> Case:
    case = Case(tmp_path, store)
    case.publish()
    return case


def refused(result: Result, part: str) -> None:
    assert result.exit_code == 3, result.output
    assert part in result.stderr
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1


def answer(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    value: dict[str, Any] = json.loads(result.stdout)
    return value


# --- what holds ---------------------------------------------------------------------------------------------------


def test_a_sealed_run_is_verified_without_the_store(case: Case) -> None:
    proof, records = case.prove("order-45"), case.records("order-45")
    shutil.rmtree(case.store)
    verified = answer(case.verify(proof, records, "--sealed", "-o", "json"))
    assert verified == {
        "verified": True,
        "tenant": "default",
        "run": "order-45",
        "records": 2,
        "leaf_kind": "seal",
        "index": 0,
        "seq": 2,
        "head": verified["head"],
        "origin": ORIGIN,
        "size": 2,
        "root": verified["root"],
        "signed_by": [log_signer(ORIGIN).key.id],
        "tenant_head": None,
        "monitored": None,
        "cosigned_by": ["w1", "w2"],
        "not_checked": verified["not_checked"],
    }
    lines = case.verify(proof, records).stdout.splitlines()
    assert lines[0] == ("records 1 to 2 of run order-45, tenant default, stand in the log: the run is whole and sealed")
    assert lines[4] == "cosigned by: w1, w2"


def test_neither_lmdb_nor_any_network_is_loaded(case: Case) -> None:
    proof, records = case.prove("order-45"), case.records("order-45")
    (case.folder / "policy").write_text(POLICY)
    argv = ["verify", "--proof", str(proof), "--records", str(records), "--policy", str(case.folder / "policy")]
    code = (
        "import sys\n"
        "from sealbook.cli.main import cli\n"
        "try:\n"
        f"    cli.main({argv!r}, prog_name='sealbook')\n"
        "except SystemExit as end:\n"
        "    assert end.code == 0, end.code\n"
        "print([name for name in ('lmdb', 'trio', 'socketserver', 'starlette', 'structlog') if name in sys.modules])\n"
    )
    result = subprocess.run([sys.executable, "-P", "-c", code], text=True, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "[]"


def test_an_anchor_is_called_an_anchor_and_is_no_seal(case: Case) -> None:
    proof, records = case.prove("order-46"), case.records("order-46")
    result = case.verify(proof, records)
    assert result.exit_code == 0
    assert "the run was still open" in result.stdout
    assert "not checked: how the run went on after record 2: the leaf is an anchor, not a seal" in result.stdout
    assert case.verify(proof, records, "--strict").exit_code == 1
    refused(case.verify(proof, records, "--sealed"), "the leaf is an anchor of record 2, not the run's seal")


def test_records_that_the_leaf_does_not_cover_are_named(case: Case) -> None:
    with Journal.open(case.store) as journal:
        tenant = journal.tenant()
        tenant.anchor("order-42")
        tenant.append("order-42", [entries.note("one more"), entries.note("and one")], epoch=1)
    case.publish()
    result = case.verify(case.prove("order-42"), case.records("order-42"))
    assert result.exit_code == 1
    assert "records 1 to 5 of run order-42" in result.stdout
    assert "not checked: records 6 to 7: the leaf is an anchor of record 5" in result.stdout


def test_a_truncated_run_with_an_anchors_proof_is_called_open(case: Case) -> None:
    with Journal.open(case.store) as journal:
        journal.tenant().anchor("order-42")
    case.publish()
    proof, before = case.prove("order-42"), case.records("order-42")
    with Journal.open(case.store) as journal:
        journal.tenant().append("order-42", [entries.concluded("completed")], epoch=1, seal=True)
    result = case.verify(proof, before)
    assert (result.exit_code, "the run was still open" in result.stdout) == (0, True)
    refused(case.verify(proof, before, "--sealed"), "is an anchor of record 5, not the run's seal")
    case.publish()
    refused(case.verify(case.prove("order-42"), before), "no leaf entry of these 5 records")


def chain_and_proof(leaf: LeafType, *more: entries.Entry) -> tuple[Chain, ProofFile]:
    """A run of these entries, and a log that has this leaf of its last record, whatever the rules say."""
    with Journal.in_memory() as journal:
        records = journal.tenant().append("a", [entries.admitted(), *more], epoch=1)
    chain = proofs.chain_of(_chained(*(record.body for record in records)))
    entry = LeafEntry(leaf, chain.run_tag, len(chain.heads), chain.heads[-1])
    log = PublishedLog()
    log.entries.append(entry.encode())
    log.nodes[Node(0, 0)] = entry.hash()
    return chain, ProofFile(0, (), log.note())


POLICY_OF_ONE = Policy.parse(f"log {log_signer().key}\nquorum none\n".encode())


def test_an_anchor_of_the_conclusion_is_refused_as_a_seal() -> None:
    chain, file = chain_and_proof(LeafType.ANCHOR, entries.concluded("completed"))
    with pytest.raises(VerificationError, match="record 2, and the leaf is an anchor of it, no seal"):
        proofs.verify(chain, file, POLICY_OF_ONE, now=0)


@pytest.mark.parametrize("last", [entries.note("on"), entries.concluded("failed")], ids=["open", "failed"])
def test_a_seal_of_a_run_that_has_not_concluded_for_good_is_refused(last: entries.Entry) -> None:
    chain, file = chain_and_proof(LeafType.SEAL, last)
    with pytest.raises(VerificationError, match="no leaf entry of these 2 records"):
        proofs.verify(chain, file, POLICY_OF_ONE, now=0)


def test_the_seal_of_a_conclusion_that_seals_is_accepted() -> None:
    chain, file = chain_and_proof(LeafType.SEAL, entries.concluded("completed"))
    assert proofs.verify(chain, file, POLICY_OF_ONE, must_seal=True, now=0).leaf_kind == "seal"


def test_signed_records_say_that_their_signatures_are_not_checked(tmp_path: Path) -> None:
    case = Case(tmp_path, tmp_path / "signed")
    with Journal.open(case.store, create=True, signer=Ed25519Signer(bytes(32))) as journal:
        journal.tenant().append("a", [entries.admitted(), entries.concluded("completed")], epoch=1, seal=True)
    case.publish()
    result = case.verify(case.prove("a"), case.records("a"))
    assert result.exit_code == 0
    assert "not checked: the signatures of 2 records" in result.stdout


# --- the records --------------------------------------------------------------------------------------------------


def _line(line: bytes, **changed: Any) -> bytes:
    return json.dumps({**json.loads(line), **changed}, separators=(",", ":")).encode() + b"\n"


def _flipped(line: bytes, name: str) -> bytes:
    data = bytearray(base64.b64decode(json.loads(line)[name]))
    data[len(data) // 2] ^= 1
    return _line(line, **{name: base64.b64encode(data).decode()})


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda lines: [_flipped(lines[0], "body"), lines[1]], "record 1: the hash does not cover its bytes"),
        (lambda lines: [_flipped(lines[0], "hash"), lines[1]], "record 1: the hash does not cover its bytes"),
        (lambda lines: [_flipped(lines[0], "prev"), lines[1]], "record 1: the hash does not cover its bytes"),
        (lambda lines: lines[1:], "record 1 does not follow record 0"),
        (lambda lines: [lines[0], lines[0]], "record 2 does not follow record 1"),
        (lambda lines: lines[::-1], "record 1 does not follow record 0"),
        (lambda lines: lines[:1], "no leaf entry of these 1 records stands at index 0"),
        (lambda lines: [], "records: there are none"),
        (lambda lines: [*lines, b"\n"], "records: line 3: no JSON"),
        (lambda lines: [lines[0], lines[1][:-1]], "records: line 2: not the one way"),
        (lambda lines: [lines[0].replace(b'{"v"', b'{ "v"'), lines[1]], "records: line 1: not the one way"),
        (lambda lines: [_line(lines[0], more=1), lines[1]], "records: line 1: the members of a record are"),
        (lambda lines: [_line(lines[0], v=True), lines[1]], "records: line 1: not the one way"),
        (lambda lines: [_line(lines[0], v="1"), lines[1]], "records: line 1: the members of a record are"),
        (lambda lines: [_line(lines[0], prev=None), lines[1]], "records: line 1: prev is base64"),
        (lambda lines: [_line(lines[0], prev="AAAA"), lines[1]], "records: line 1: prev has 32 bytes, not 3"),
        (lambda lines: [_line(lines[0], signature="AAAA"), lines[1]], "line 1: signature has 64 bytes, not 3"),
        (lambda lines: [_line(lines[0], signature="A" * 86 + "=="), lines[1]], "signer and signature do not come"),
        (lambda lines: [b"[" * 100_000 + b"\n"], "records: line 1: no JSON"),
        (lambda lines: [b"x" * record_lines.LINE_BYTES_MAX + b"\n"], "records: line 1: more than"),
        (lambda lines: [b"\xff\n"], "records: line 1: no JSON"),
        (lambda lines: [b"null\n"], "records: line 1: no record"),
    ],
)
def test_records_that_are_not_those_of_the_leaf_are_refused(
    case: Case, change: Callable[[list[bytes]], list[bytes]], part: str
) -> None:
    proof, records = case.prove("order-45"), case.records("order-45")
    records.write_bytes(b"".join(change(records.read_bytes().splitlines(keepends=True))))
    refused(case.verify(proof, records), part)


def _chained(*bodies: bytes) -> list[Row]:
    rows, prev = [], bytes(32)
    for body in bodies:
        rows.append(Row(0, prev, chain_hash(prev, body), None, body))
        prev = rows[-1].hash
    return rows


def test_a_chain_that_mixes_runs_is_refused() -> None:
    with Journal.in_memory() as journal:
        one = journal.tenant().append("a", [entries.admitted(), entries.note("x")], epoch=1)
        other = journal.tenant().append("b", [entries.admitted(), entries.note("x")], epoch=1)
    with pytest.raises(VerificationError, match="record 2: the body says it is b record 2 of another place"):
        proofs.chain_of(_chained(one[0].body, other[1].body))


def test_nothing_follows_a_conclusion_that_seals() -> None:
    with Journal.in_memory() as journal:
        one = journal.tenant().append("a", [entries.admitted(), entries.concluded("completed")], epoch=1)
        other = journal.tenant().append("a2", OTHER_RUN, epoch=1)
    with pytest.raises(VerificationError, match="record 3 follows the run's conclusion"):
        proofs.chain_of(_chained(one[0].body, one[1].body, other[2].body))


def test_a_body_that_is_not_in_its_canonical_encoding_is_refused() -> None:
    with Journal.in_memory() as journal:
        [record] = journal.tenant().append("a", [entries.admitted()], epoch=1)
    with pytest.raises(VerificationError, match="record 1: the body is not in its canonical encoding"):
        proofs.chain_of(_chained(record.body + b"\0"))


def test_a_record_of_a_newer_version_counts_by_its_hash_and_is_named() -> None:
    with Journal.in_memory() as journal:
        bodies = [record.body for record in journal.tenant().append("a2", OTHER_RUN, epoch=1)]
    bodies[1] = bodies[1].replace(b"\x61v\x01", b"\x61v\x02")
    chain = proofs.chain_of(_chained(*bodies))
    assert (chain.newer, chain.final, len(chain.heads)) == (1, True, 3)


def test_records_of_a_newer_version_of_the_file_are_not_called_forged(case: Case) -> None:
    proof, records = case.prove("order-45"), case.records("order-45")
    records.write_bytes(records.read_bytes().replace(b'{"v":1,', b'{"v":2,'))
    result = case.verify(proof, records)
    assert result.exit_code == 6
    assert "records are in version 2, 1 is known" in result.stderr


# --- proof, signatures, quorum ------------------------------------------------------------------------------------


def test_the_proof_of_another_run_is_refused(case: Case) -> None:
    refused(case.verify(case.prove("order-46"), case.records("order-45")), "no leaf entry of these 2 records")


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("index 0\n", "index 1\n", "no leaf entry"),
        ("index 0\n", "index 2\n", "no leaf entry"),
        ("index 0\n", "index 00\n", "index"),
        ("\n2\n", "\n3\n", "does not verify"),
        ("c2sp.org/tlog-proof@v1", "c2sp.org/tlog-proof@v2", "the first line is"),
        ("\nsealbook\n", "\nelsewhere\n", "checkpoint is of 'elsewhere', not of a log of the policy"),
    ],
)
def test_a_proof_that_was_changed_is_refused(case: Case, old: str, new: str, part: str) -> None:
    proof, records = case.prove("order-45"), case.records("order-45")
    text = proof.read_text()
    assert old in text
    proof.write_text(text.replace(old, new, 1))
    refused(case.verify(proof, records), part)


def test_a_checkpoint_that_too_few_witnesses_saw_is_refused(case: Case) -> None:
    records = case.records("order-45")
    case.publish(witnesses=False)
    proof = case.prove("order-45")
    refused(case.verify(proof, records), "quorum both is not met: cosigned by nobody")
    assert case.verify(proof, records, policy=ALONE).exit_code == 0


def test_a_log_whose_key_the_policy_does_not_know_is_refused(case: Case) -> None:
    case.publish(signer_seed=9)
    refused(case.verify(case.prove("order-45"), case.records("order-45")), "no key of the log signed the checkpoint")


def test_a_policy_without_witnesses_is_named(case: Case) -> None:
    proof, records = case.prove("order-45"), case.records("order-45")
    result = case.verify(proof, records, policy=ALONE)
    assert "not checked: whether others are shown another log: the policy's quorum is none" in result.stdout


def test_old_cosignatures_do_not_count_when_an_age_is_given(case: Case) -> None:
    records = case.records("order-45")
    case.publish(at=1_000_000_000)
    refused(case.verify(case.prove("order-45"), records, "--max-age", "7d"), "quorum both is not fresh")


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("90", 90), ("90s", 90), ("5m", 300), ("36h", 129_600), ("1d", 86_400)]
)
def test_an_age_is_a_number_with_a_unit(text: str, seconds: int) -> None:
    assert proofs.parse_age(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "-1", "+1m", "1w", "1.5h", "1 m", "01m", "٣m"])
def test_what_is_no_age_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        proofs.parse_age(text)


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (("--max-age", "soon"), "--max-age: age is a plain decimal number"),
        (("order-45",), "--proof goes with --records and --policy, and without a RUN"),
    ],
)
def test_what_does_not_go_together_is_a_usage_error(case: Case, args: tuple[str, ...], part: str) -> None:
    result = case.verify(case.prove("order-45"), case.records("order-45"), *args)
    assert result.exit_code == 2
    assert part in result.stderr
    assert _run("-D", str(case.store), "verify", "--sealed").exit_code == 2


def test_an_age_without_witnesses_is_a_usage_error(case: Case) -> None:
    result = case.verify(case.prove("order-45"), case.records("order-45"), "--max-age", "1h", policy=ALONE)
    assert result.exit_code == 2
    assert "the policy's quorum is none" in result.stderr


def test_a_malformed_policy_is_a_usage_error(case: Case) -> None:
    result = case.verify(case.prove("order-45"), case.records("order-45"), policy="quorum both\n")
    assert result.exit_code == 2
    assert "policy line 1: quorum 'both' is not defined before" in result.stderr
    empty = case.verify(case.prove("order-45"), case.records("order-45"), policy="")
    assert (empty.exit_code, "the file is empty" in empty.stderr) == (2, True)


# --- what was accepted before -------------------------------------------------------------------------------------


def grown(case: Case) -> None:
    with Journal.open(case.store) as journal:
        journal.tenant().append("later", OTHER_RUN, epoch=1, seal=True)


def test_an_older_checkpoint_than_the_last_accepted_is_refused(case: Case) -> None:
    records, state = case.records("order-45"), str(case.folder / "state")
    old = case.prove("order-45", "old")
    grown(case)
    case.publish()
    new = case.prove("order-45", "new")
    assert case.verify(new, records, "--state", state).exit_code == 0
    kept = Path(state).read_bytes()
    older = case.verify(old, records, "--state", state)
    refused(older, "has size 2, one of size 3 was seen before")
    assert "ask for a newer proof" in older.stderr and "keep both" not in older.stderr
    assert Path(state).read_bytes() == kept
    assert case.verify(old, records).exit_code == 0


def test_another_checkpoint_of_the_same_size_is_refused(case: Case, tmp_path: Path) -> None:
    records, state = case.records("order-45"), str(case.folder / "state")
    copy = Case(tmp_path / "fork", tmp_path / "fork" / "s")
    shutil.copytree(case.store, copy.store)
    for each, run in ((case, "one"), (copy, "other")):
        with Journal.open(each.store) as journal:
            journal.tenant().append(run, OTHER_RUN, epoch=1, seal=True)
        each.publish()
    assert case.verify(case.prove("order-45"), records, "--state", state).exit_code == 0
    forked = copy.prove("order-45")
    assert case.verify(forked, records).exit_code == 0
    contradicted = case.verify(forked, records, "--state", state)
    refused(contradicted, "two checkpoints of size 3")
    assert "keep both checkpoints" in contradicted.stderr


def test_a_larger_checkpoint_is_remembered_only_once_proven_to_extend_the_last(case: Case) -> None:
    records, state = case.records("order-45"), str(case.folder / "state")
    assert case.verify(case.prove("order-45"), records, "--state", state).exit_code == 0
    kept = Path(state).read_bytes()
    grown(case)
    note = case.publish()
    proof, consistency = case.prove("order-45"), case.folder / "consistency"
    for _ in range(2):
        result = case.verify(proof, records, "--state", state)
        assert result.exit_code == 0
        assert "not checked: whether size 3 begins with size 2, accepted before: no --consistency" in result.stdout
        assert Path(state).read_bytes() == kept
    consistency.write_text(case.issue("log", "consistency", "2", "--size", "3", "-o", "json").stdout)
    assert case.verify(proof, records, "--state", state, "--consistency", str(consistency)).exit_code == 0
    stored = Accepted.parse(Path(state).read_bytes())
    assert stored.seen(ORIGIN) == Checkpoint.parse(Note.parse(note.read_bytes()).text)
    assert "whether size" not in case.verify(proof, records, "--state", state).stdout


def test_a_larger_checkpoint_with_its_proof_is_checked(case: Case, tmp_path: Path) -> None:
    records, state = case.records("order-45"), str(case.folder / "state")
    assert case.verify(case.prove("order-45"), records, "--state", state).exit_code == 0
    kept = Path(state).read_bytes()
    grown(case)
    case.publish()
    proof, consistency = case.prove("order-45"), case.folder / "consistency"
    consistency.write_text(case.issue("log", "consistency", "2", "--size", "3", "-o", "json").stdout)
    args = ("--state", state, "--consistency", str(consistency))
    result = case.verify(proof, records, *args)
    assert (result.exit_code, "whether size" in result.stdout) == (0, False)

    Path(state).write_bytes(kept)
    proof_object = json.loads(consistency.read_text())
    for changed, part in (
        ({"old": 1}, "is from size 1 to 3, needed is one from 2 to 3"),
        ({"proof": ["00" * 32]}, "the proof leads to new root"),
        ({"proof": []}, "the proof from size 2 to 3 is empty"),
        ({"proof": ["00"]}, "no proof as `log consistency -o json` prints it"),
        ({"old": True}, "no proof as `log consistency -o json` prints it"),
        ({"proof": 3}, "no proof as `log consistency -o json` prints it"),
    ):
        consistency.write_text(json.dumps({**proof_object, **changed}))
        refused(case.verify(proof, records, *args), part)
        assert Path(state).read_bytes() == kept


@pytest.mark.parametrize(
    ("state", "code", "part"),
    [
        (b"", 3, "state: no JSON"),
        (b"{}", 3, "state: no accepted checkpoints"),
        (b'{"sealbook":"accepted checkpoints","v":1}', 3, "state: no notes"),
        (b'{"sealbook":"accepted checkpoints","v":1,"notes":{}}', 3, "state: it is damaged"),
        (Accepted({"sealbook": "x"}).encode(), 3, "note"),
        (
            Accepted({"another": signed_note(PublishedLog(5).checkpoint(origin="one")).decode()}).encode(),
            3,
            "another log",
        ),
        (b'{"sealbook":"accepted checkpoints","v":2,"notes":{}}', 6, "state: version 2, 1 is known"),
    ],
)
def test_a_state_that_cannot_be_read_is_never_taken_for_none(case: Case, state: bytes, code: int, part: str) -> None:
    (case.folder / "state").write_bytes(state)
    result = case.verify(case.prove("order-45"), case.records("order-45"), "--state", str(case.folder / "state"))
    assert result.exit_code == code
    assert part in result.stderr
    assert (case.folder / "state").read_bytes() == state


def test_no_byte_of_a_state_can_change_unnoticed(case: Case) -> None:
    proof, records, state = case.prove("order-45"), case.records("order-45"), case.folder / "state"
    assert case.verify(proof, records, "--state", str(state)).exit_code == 0
    data = state.read_bytes()
    seen = Accepted.parse(data).seen(ORIGIN)
    for index, byte in enumerate(data):
        for bit in (0x01, 0x20):
            damaged = data[:index] + bytes([byte ^ bit]) + data[index + 1 :]
            try:
                memory = Accepted.parse(damaged)
            except (VerificationError, UnknownVersion):
                continue
            assert memory.seen(ORIGIN) == seen, (index, bit)  # white space, or another way to write the same text


def test_a_state_is_its_owners_alone_and_whole_whatever_it_was_before(case: Case) -> None:
    proof, records, state = case.prove("order-45"), case.records("order-45"), case.folder / "state"
    link = case.folder / "link"
    link.symlink_to(state)
    (case.folder / "state.new").write_bytes(b"left by a verifier that was killed")
    before = os.umask(0)
    try:
        assert case.verify(proof, records, "--state", str(link)).exit_code == 0
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (state, case.folder / "state.lock")] == [0o600, 0o600]
    assert (link.is_symlink(), (case.folder / "state.new").exists()) == (True, False)
    assert Accepted.parse(state.read_bytes()).seen(ORIGIN) == case.checkpoint()


def test_a_state_is_durable_before_the_answer_is_printed(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    state = case.folder / "state"
    done: list[str] = []
    fsync, replace, printed = os.fsync, Path.replace, offline_files._print

    def synced(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        done.append(f"fsync {kind}")
        fsync(descriptor)

    def replaced(path: Path, target: Path) -> Path:
        done.append(f"{path.name} becomes {target.name}")
        return replace(path, target)

    def told(*args: Any) -> None:
        done.append("printed")
        printed(*args)

    proof, records = case.prove("order-45"), case.records("order-45")
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    monkeypatch.setattr(offline_files, "_print", told)
    assert case.verify(proof, records, "--state", str(state)).exit_code == 0
    assert done == ["fsync file", "state.new becomes state", "fsync folder", "printed"]
    done.clear()
    assert case.verify(proof, records, "--state", str(state)).exit_code == 0
    assert done == ["printed"], "what is remembered already is not written again"


def test_one_verifier_at_a_time_reads_and_writes_a_state(case: Case) -> None:
    state = case.folder / "state"
    with offline_files._memory(state), (case.folder / "state.lock").open("rb") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (case.folder / "state.lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # and it is free afterwards


def test_verifiers_that_run_at_once_never_forget_the_larger_checkpoint(case: Case) -> None:
    records, state, consistency = case.records("order-45"), case.folder / "state", case.folder / "consistency"
    old = case.prove("order-45", "old")
    grown(case)
    case.publish()
    new = case.prove("order-45", "new")
    consistency.write_text(case.issue("log", "consistency", "2", "--size", "3", "-o", "json").stdout)
    (case.folder / "policy").write_text(POLICY)

    def started(proof: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-P", "-m", "sealbook.cli", "verify", "--proof", str(proof), "--records"]
        more = [str(records), "--policy", str(case.folder / "policy"), "--state", str(state)]
        proven = ["--consistency", str(consistency)]
        return subprocess.Popen([*command, *more, *proven], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    running = [started(proof) for proof in (old, new, old, new)]
    printed = [process.communicate(timeout=60)[0] for process in running]
    for process, text in zip(running, printed, strict=True):
        assert process.returncode == 0 or "one of size 3 was seen before" in text, text
    seen = Accepted.parse(state.read_bytes()).seen(ORIGIN)
    assert seen is not None and seen.size == 3


def test_each_log_is_remembered_by_itself() -> None:
    memory = Accepted()
    policies = []
    for origin in ("one.example", "two.example"):
        note = signed_note(PublishedLog(5).checkpoint(origin=origin))
        policies.append(Policy.parse(f"log {log_signer(origin).key}\nquorum none\n".encode()).open(note))
    memory.accept(policies[0], proven=False)
    assert memory.seen("two.example") is None
    memory.accept(policies[1], proven=False)
    again = Accepted.parse(memory.encode())
    assert again.encode() == memory.encode()
    assert [again.seen(signed.checkpoint.origin) for signed in policies] == [signed.checkpoint for signed in policies]


# --- what is given away -------------------------------------------------------------------------------------------


def test_records_are_printed_in_the_one_way_that_is_read(case: Case) -> None:
    printed = case.issue("run", "order-42", "-o", "records").stdout_bytes
    assert printed == case.records("order-42").read_bytes()
    assert printed.count(b"\n") == 5
    with Journal.open(case.store, readonly=True) as journal:
        stored = journal.tenant().read("order-42")
    for line, record in zip(printed.splitlines(keepends=True), stored, strict=True):
        assert record_lines.encode(record.prev, record.hash, record.signature, record.body) == line


def test_the_proof_file_is_printed_or_written_alike(case: Case) -> None:
    args = ("log", "proof", "order-45", "-o", "tlog-proof", "--checkpoint", str(case.folder / "note"))
    printed = case.issue(*args).stdout_bytes
    assert printed == case.prove("order-45").read_bytes()
    file = ProofFile.parse(printed)
    assert (file.index, file.checkpoint, file.extra) == (0, (case.folder / "note").read_bytes(), None)


def test_the_proof_is_in_the_latest_checkpoint_that_was_published(case: Case) -> None:
    args = ("log", "proof", "order-45", "-o", "tlog-proof")
    nothing = case.issue(*args)
    assert (nothing.exit_code, "no published checkpoint of log 'sealbook'" in nothing.stderr) == (4, True)
    with Journal.open(case.store) as journal:
        note = publish(journal.tenant(), *WITNESSES)
    grown(case)
    printed = case.issue(*args).stdout_bytes
    assert ProofFile.parse(printed).checkpoint == note
    (case.folder / "p").write_bytes(printed)
    assert case.verify(case.folder / "p", case.records("order-45"), "--sealed").exit_code == 0


def test_a_leaf_that_the_published_checkpoint_does_not_reach_is_not_found(case: Case) -> None:
    grown(case)
    result = case.issue("log", "proof", "later", "-o", "tlog-proof", "--checkpoint", str(case.folder / "note"))
    assert result.exit_code == 4
    assert "no leaf below size 2 of run 'later'" in result.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("log", "proof", "order-45", "-o", "tlog-proof", "--size", "1"),
        ("log", "proof", "order-45", "--to", "file"),
        ("run", "order-45", "--to", "file"),
    ],
)
def test_options_of_other_formats_are_usage_errors(case: Case, args: tuple[str, ...]) -> None:
    assert case.issue(*args).exit_code == 2


def test_a_file_that_cannot_be_written_is_left_out(case: Case) -> None:
    target = case.folder / "missing" / "file"
    result = case.issue("run", "order-45", "-o", "records", "--to", str(target))
    assert result.exit_code == 6
    assert not target.parent.exists()


# --- anchor batches ---------------------------------------------------------------------------------------------------


def anchored_together(store: Path, tmp_path: Path) -> Case:
    """The store after one leaf for all its open runs."""
    case = Case(tmp_path, store)
    assert case.issue("anchor", "--open").exit_code == 0
    case.publish()
    return case


def test_a_run_in_an_anchor_batch_is_verified_by_two_paths(store: Path, tmp_path: Path) -> None:
    case = anchored_together(store, tmp_path)
    proof, records = case.prove("order-42"), case.records("order-42")
    shutil.rmtree(case.store)
    verified = answer(case.verify(proof, records, "-o", "json"))
    assert (verified["leaf_kind"], verified["index"], verified["seq"], verified["records"]) == ("anchor-batch", 2, 5, 5)
    refused(case.verify(proof, records, "--sealed"), "is an anchor of record 5, not the run's seal")


def test_records_that_are_not_those_of_the_batch_are_refused(store: Path, tmp_path: Path) -> None:
    case = anchored_together(store, tmp_path)
    proof, records = case.prove("order-42"), case.records("order-42")
    refused(case.verify(proof, case.records("order-43", "other")), "no leaf entry of these 2 records")
    cut = tmp_path / "cut"
    cut.write_bytes(b"".join(records.read_bytes().splitlines(keepends=True)[:4]))
    refused(case.verify(proof, cut), "no leaf entry of these 4 records")


def test_any_byte_changed_in_the_inner_path_is_refused(store: Path, tmp_path: Path) -> None:
    case = anchored_together(store, tmp_path)
    proof, records = case.prove("order-42"), case.records("order-42")
    file = ProofFile.parse(proof.read_bytes())
    assert file.extra is not None
    chain = proofs.chain_of(record_lines.read(io.BytesIO(records.read_bytes())))
    policy = Policy.parse(ALONE.encode())
    assert proofs.verify(chain, file, policy, now=0).leaf_kind == "anchor-batch"
    for position in range(len(file.extra)):
        changed = bytearray(file.extra)
        changed[position] ^= 1
        with pytest.raises(VerificationError):
            proofs.verify(chain, replace(file, extra=bytes(changed)), policy, now=0)


@pytest.mark.parametrize(
    "args",
    [
        ("verify", "--checkpoint", "FILE"),
        ("verify", "--keys", "FILE"),
        ("audit", "--checkpoint", "FILE"),
        ("import", "FILE"),
        ("bundle", "verify", "FILE"),
        ("bundle", "verify", "BUNDLE", "--checkpoint", "FILE"),
        ("bundle", "verify", "BUNDLE", "--keys", "FILE"),
        ("show", "--cursor-file", "FILE"),
    ],
)
def test_no_error_prints_what_stands_in_a_file_that_is_none_of_its_kind(
    call: Callable[..., Result], tmp_path: Path, args: tuple[str, ...]
) -> None:
    file, bundle = tmp_path / "passwords", tmp_path / "b"
    file.write_text("a secret:x:0:0\na secret\na secret\n\na secret\n")
    assert call("export", "--to", str(bundle)).exit_code == 0
    result = call(*({"FILE": str(file), "BUNDLE": str(bundle)}.get(arg, arg) for arg in args))
    assert result.exit_code != 0
    assert str(file) in result.stderr
    assert "a secret" not in result.output


def test_no_error_prints_a_line_of_the_records_or_the_proof() -> None:
    with pytest.raises(Malformed, match=r"records: line 1: no JSON$"):
        list(record_lines.read(io.BytesIO(b"a secret\n")))
    with pytest.raises(Malformed) as refused:
        ProofFile.parse(b"a secret\n\na secret\n")
    assert "a secret" not in str(refused.value)
