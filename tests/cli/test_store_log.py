"""The store log on the command line: gathered, signed, published, served, monitored, and proofs through it."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result
from published_log import log_signer, publish, signed_note, witness_signer
from publishing_world import NOW, over, policy, rules, witness
from tampering import change, engine_of

from sealbook.cli.ground import exit_codes
from sealbook.cli.main import cli
from sealbook.cli.publishing.daemon import Daemon
from sealbook.cli.serving.store_tiles import StoreLogOfTiles
from sealbook.journal import Journal, StoreLog, entries
from sealbook.journal.keys.public_halves import Purpose
from sealbook.journal.keys.ring import Keyring
from sealbook.journal.schema import tables
from sealbook.merkle import Checkpoint, Node, check_run_rules
from sealbook.merkle.proof_file import ProofFile
from sealbook.merkle.tenant_head import HeadProof, TenantHead
from sealbook.merkle.tiles import tenant_path
from sealbook.merkle.witness import TrustedLog

BASE, STORE_ORIGIN = "example.com/log", "example.com/store"
WITNESSES = (witness_signer("w1"), witness_signer("w2"))


@dataclass
class Case:
    """A store with a store log, and those who are told of it."""

    folder: Path

    def open(self, *, create: bool = False) -> Journal:
        return Journal.open(self.folder / "s", create=create, origin=BASE, store_origin=STORE_ORIGIN)

    def seal(self, tenant: str, *runs: str) -> None:
        with self.open(create=not (self.folder / "s").exists()) as journal:
            for run in runs:
                journal.tenant(tenant).append(run, [entries.concluded("completed")], epoch=1, seal=True)

    def publish(self) -> None:
        """Gather, and let the store log be signed, cosigned and published."""
        with self.open() as journal:
            journal.store_log.gather()
            publish(journal.store_log, *WITNESSES)

    def adopt(self, tenant: str) -> None:
        """Let the tenant's log go on under another origin, as after an older copy was put back."""
        with self.open() as journal:
            log = journal.tenant(tenant)
            log.adopt_log("elsewhere", signed_note(Checkpoint(log.origin, 9, bytes(32))), actor="ada")

    def call(self, *args: str, code: int = 0, store_origin: str | None = STORE_ORIGIN) -> Result:
        named = [] if store_origin is None else ["--store-origin", store_origin]
        result = CliRunner().invoke(cli, ["-D", str(self.folder / "s"), "--origin", BASE, *named, *args])
        assert result.exit_code == code, result.output
        return result

    @property
    def policy(self) -> Path:
        path = self.folder / "policy"
        lines = [f"log {log_signer(STORE_ORIGIN).key}"]
        lines += [f"witness {signer.key.name} {signer.key} http://{signer.key.name}" for signer in WITNESSES]
        path.write_text("\n".join([*lines, "group both all w1 w2", "quorum both", ""]))
        return path

    def prove(self, tenant: str, run: str) -> tuple[Path, Path]:
        proof, records = self.folder / f"{run}.tlog-proof", self.folder / f"{run}.records"
        of = ["--tenant", tenant]
        self.call(*of, "log", "proof", run, "--store-log", "-o", "tlog-proof", "--to", str(proof))
        self.call(*of, "run", run, "-o", "records", "--to", str(records))
        return proof, records

    def tiles(self) -> Path:
        self.call("log", "tiles", "--store-log", "--to", str(self.folder / "tiles"))
        return self.folder / "tiles"

    def monitor(self, code: int = 0) -> Result:
        state, where = str(self.folder / "seen.db"), str(self.folder / "tiles")
        return self.call("log", "monitor", where, "--state", state, "--policy", str(self.policy), code=code)

    def verify(self, files: tuple[Path, Path], *args: str, code: int = 0) -> Result:
        proof, records = files
        named = ["--proof", str(proof), "--records", str(records), "--policy", str(self.policy)]
        return self.call("verify", *named, *args, code=code)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    made = Case(tmp_path)
    made.seal("acme", "a", "b", "c")
    made.seal("beta", "x")
    return made


def answer(result: Result) -> dict[str, Any]:
    [line] = result.stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


# --- gathered and signed ---------------------------------------------------------------------------------------------


def test_the_heads_are_gathered_once(case: Case) -> None:
    lines = case.call("log", "gather").stdout.splitlines()
    assert sorted(line.partition(" at ")[0] for line in lines) == ["acme: size 3", "beta: size 1"]
    again = case.call("log", "gather")
    assert (again.stdout, again.stderr) == ("", "sealbook: no log has grown\n")
    case.seal("acme", "d")
    with case.open() as journal:
        root = journal.tenant("acme").checkpoint().root.hex()
    assert answer(case.call("log", "gather", "-o", "json")) == {"tenant": "acme", "index": 2, "size": 4, "root": root}
    head = answer(case.call("log", "head", "--store-log", "-o", "json"))
    assert (head["origin"], head["size"]) == (STORE_ORIGIN, 3)
    consistency = answer(case.call("log", "consistency", "1", "--store-log", "-o", "json"))
    assert (consistency["old"], consistency["new"], consistency["new_root"]) == (1, 3, head["root"])


@pytest.mark.parametrize(
    "args", [("log", "gather"), ("log", "head", "--store-log"), ("witness", "status", "--store-log")]
)
def test_without_a_name_there_is_no_store_log(case: Case, args: tuple[str, ...]) -> None:
    result = case.call(*args, code=2, store_origin=None)
    assert "--store-origin NAME, before the verb" in result.stderr


def test_a_name_that_coincides_with_a_tenants_is_refused(case: Case) -> None:
    result = case.call("log", "gather", code=5, store_origin=f"{BASE}/acme")
    assert "the store log and tenant default would share it" in result.stderr


def test_the_environment_stands_in_for_the_name(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEALBOOK_STORE_ORIGIN", STORE_ORIGIN)
    assert STORE_ORIGIN in case.call("log", "head", "--store-log", store_origin=None).stdout


def test_it_is_published_with_what_has_grown_since(case: Case) -> None:
    keys = ("--keys", str(case.folder / "keys"))
    case.call("keys", "gen", "--log", "--origin", STORE_ORIGIN, "--exact", *keys)
    first = case.call("log", "publish", "--store-log", "--no-policy", *keys)
    assert first.stdout == f"{STORE_ORIGIN}: size 2 is published, by the log's own signature alone\n"
    assert "size 2 is published" in case.call("log", "publish", "--store-log", "--no-policy", *keys).stderr
    case.seal("beta", "y")
    assert f"{STORE_ORIGIN}: size 3" in case.call("log", "publish", "--store-log", "--no-policy", *keys).stdout
    status = answer(case.call("witness", "status", "--store-log", "-o", "json", *keys))
    assert (status["tenant"], status["origin"], status["published"]) == (None, STORE_ORIGIN, 3)
    assert "tenant" not in case.call("witness", "status", "--store-log", *keys).stdout
    signed = case.call("log", "checkpoint", "--store-log", "--sign", *keys).stdout
    assert signed.startswith(f"{STORE_ORIGIN}\n3\n") and "— example.com/store " in signed
    with case.open() as journal:
        assert journal.tenant("acme").published_checkpoint() is None


def test_an_older_copy_of_the_store_publishes_no_store_log(case: Case) -> None:
    keys = ("--keys", str(case.folder / "keys"))
    case.call("keys", "gen", "--log", "--origin", STORE_ORIGIN, "--exact", *keys)
    shutil.copytree(case.folder / "s", case.folder / "copy")
    case.call("log", "publish", "--store-log", "--no-policy", *keys)
    case.seal("acme", "d")
    case.call("log", "publish", "--store-log", "--no-policy", *keys)
    shutil.rmtree(case.folder / "s")
    (case.folder / "copy").rename(case.folder / "s")
    result = case.call("log", "publish", "--store-log", "--no-policy", *keys, code=5)
    assert "size 2 is not signed, because size 3 had been signed" in result.stderr


def test_its_policy_is_handed_out_with_its_own_key(case: Case) -> None:
    keys = ("--keys", str(case.folder / "keys"))
    case.call("keys", "gen", "--log", "--origin", STORE_ORIGIN, "--exact", *keys)
    case.call("witness", "add", "w1", str(WITNESSES[0].key), "http://127.0.0.1:9", *keys)
    handed_out = case.call("witness", "list", "--store-log", "-o", "tlog-policy", *keys).stdout
    assert f"log {STORE_ORIGIN}+" in handed_out and f"witness w1 {WITNESSES[0].key} http://127.0.0.1:9" in handed_out
    resolved = case.call("witness", "resolve", "--store-log", *keys, code=4)
    assert STORE_ORIGIN in resolved.stderr
    submitted = case.call("witness", "submit", "--store-log", *keys, code=5)
    assert f"{STORE_ORIGIN}: size 2 is signed and waits for its quorum" in submitted.stderr


def test_witnesses_cosign_it_like_any_log(case: Case) -> None:
    ring = Keyring(case.folder / "keys")
    key = ring.generate(Purpose.LOG, STORE_ORIGIN, created=0)
    witnesses = [witness(name, TrustedLog(STORE_ORIGIN, (key.verifier,))) for name in ("w1", "w2")]
    told: list[object] = []
    with case.open() as journal:
        daemon = Daemon(
            ring=ring,
            logs=lambda: [journal.store_log],
            rules=lambda memory: rules(policy(*witnesses, quorum=2)),
            transport=over(witnesses),
            clock=lambda: NOW,
            told=lambda origin, ended: told.append(ended),
        )
        for run in ("y", "z"):
            journal.tenant("beta").append(run, [entries.concluded("completed")], epoch=1, seal=True)
            assert trio.run(daemon.once) == exit_codes.OK, told
        assert journal.store_log.published_sizes(0) == [2, 3]
    assert [each.size for each in witnesses] == [3, 3]


LOOP = """
import sys
from sealbook.journal import Journal, entries
with Journal.open(sys.argv[1], origin=sys.argv[2], store_origin=sys.argv[3]) as journal:
    for number in range(10**6):
        run, concluded = f"{sys.argv[4]}-{number}", [entries.concluded("ok")]
        journal.tenant("abc"[number % 3]).append(run, concluded, epoch=1, seal=True)
        print(len(journal.store_log.gather()), flush=True)
"""


def test_killed_while_it_gathers_it_has_all_of_a_gathering_or_nothing(case: Case) -> None:
    chance = random.Random(7)
    for turn in range(5):
        command = [sys.executable, "-c", LOOP, str(case.folder / "s"), BASE, STORE_ORIGIN, str(turn)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for _ in range(chance.randint(1, 8)):
                assert int(child.stdout.readline()) >= 1
            child.kill()
        with case.open() as journal:
            assert [str(found) for found in journal.check().findings] == [], f"seed 7, turn {turn}"
            size = journal.store_log.checkpoint().size
            check_run_rules(map(TenantHead.decode, journal.store_log.leaf_entries(0, size)))


# --- tiles and the monitor -------------------------------------------------------------------------------------------


def test_one_folder_suffices_a_monitor(case: Case) -> None:
    for number in range(3):
        case.seal("acme", *(f"{number}-{run}" for run in range(130)))
        case.publish()
        case.tiles()
        assert "monitored: the logs of 2 tenants" in case.monitor().stdout
    names = {path.name for path in (case.folder / "tiles").iterdir()}
    assert names == {"checkpoint", "tile", "tenant"}
    told = b"".join(path.read_bytes() for path in (case.folder / "tiles").rglob("*") if path.is_file())
    assert b"acme" not in told and b"sealbook/leaf/v1" not in told


def test_tiles_of_a_tenant_that_do_not_lead_to_its_head_do_not_go_out(case: Case) -> None:
    case.publish()
    tiles = case.tiles()
    before = (tiles / "checkpoint").read_bytes()
    case.seal("acme", "d")
    case.publish()
    with case.open() as journal:
        place = tables.node_place("acme", Node(0, 1))
        change(engine_of(journal), {place: bytes(32)})
    result = case.call("log", "tiles", "--store-log", "--to", str(tiles), code=3)
    assert "the tiles of size 4 lead to root" in result.stderr
    assert (tiles / "checkpoint").read_bytes() == before


def test_heads_that_are_gathered_and_not_published_do_not_go_out(case: Case) -> None:
    case.publish()
    case.seal("beta", "y")
    case.call("log", "gather")
    tiles = case.tiles()
    assert (tiles / "checkpoint").read_bytes().startswith(b"example.com/store\n2\n")
    with case.open() as journal:
        [tag] = [tag for tag, tenant in journal.store_log.tags().items() if tenant == "beta"]
    assert [path.name for path in (tiles / tenant_path(tag) / "tile/0/000.p").iterdir()] == ["1"]


def test_the_store_serves_what_the_folder_has(case: Case) -> None:
    case.seal("acme", *(f"r{number}" for number in range(300)))
    case.publish()
    case.seal("acme", "later")
    with case.open() as journal:
        journal.store_log.gather()
    tiles = case.tiles()
    with case.open() as journal:
        served = StoreLogOfTiles(journal, journal.store_log)
        files = {str(path.relative_to(tiles)): path.read_bytes() for path in tiles.rglob("*") if path.is_file()}
        assert len(files) > 6
        assert {path: served.find(path) for path in files} == files
        [tag] = [tag for tag, tenant in journal.store_log.tags().items() if tenant == "acme"]
        for path in ("tile/0/001.p/48", "tile/entries/000", "checkpoint", "tile/0/../0"):
            assert served.find(tenant_path(tag) + path) is None
        assert served.find(f"{tenant_path(bytes(32))}tile/0/000") is None


def test_whoever_asks_for_tags_that_nobody_has_costs_no_search_each_time(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.seal("default", "a")
    case.publish()
    searched: list[None] = []
    tags = StoreLog.tags

    def counting(log: StoreLog) -> dict[bytes, str]:
        searched.append(None)
        return tags(log)

    monkeypatch.setattr(StoreLog, "tags", counting)
    with case.open() as journal:
        served = StoreLogOfTiles(journal, journal.store_log)
        for number in range(20):
            assert served.find(f"{tenant_path(bytes([number]) * 32)}tile/0/000.p/1") is None
        assert len(searched) == 1
        journal.tenant("late").append("b", [entries.concluded("completed")], epoch=1, seal=True)
        journal.store_log.gather()
        publish(journal.store_log, *WITNESSES)
        [tag] = [tag for tag, name in tags(journal.store_log).items() if name == "late"]
        assert served.find(f"{tenant_path(tag)}tile/0/000.p/1") is not None
        assert len(searched) == 2


def test_a_log_that_went_on_under_a_new_origin_is_monitored_under_its_new_tag(case: Case) -> None:
    case.publish()
    case.tiles()
    case.adopt("acme")
    case.publish()
    case.seal("acme", "d")
    case.publish()
    case.tiles()
    assert "monitored: the logs of 3 tenants" in case.monitor().stdout


# --- proofs ----------------------------------------------------------------------------------------------------------


def test_a_run_is_verified_through_the_store_log_without_the_store(case: Case) -> None:
    case.publish()
    files = case.prove("acme", "b")
    head = ProofFile.parse(files[0].read_bytes())
    assert head.extra is not None
    path = HeadProof.parse(head.extra)
    shutil.rmtree(case.folder / "s")
    verified = answer(case.verify(files, "--sealed", "-o", "json"))
    assert (verified["leaf_kind"], verified["index"], verified["origin"]) == ("seal", 1, STORE_ORIGIN)
    assert verified["cosigned_by"] == ["w1", "w2"]
    assert verified["tenant_head"] == {
        "tag": path.head.tag.hex(),
        "size": 3,
        "root": path.head.root.hex(),
        "index": head.index,
    }
    assert verified["monitored"] is False
    assert "whether the tenant's log was forked: not monitored: no --monitored" in verified["not_checked"]
    text = case.verify(files).stdout
    assert f"head: size 3, root {path.head.root.hex()} of the tenant's log" in text and ", not monitored\n" in text


def test_a_run_of_an_anchor_batch_is_verified_through_the_store_log(case: Case) -> None:
    with case.open() as journal:
        for run in ("open-1", "open-2", "open-3"):
            journal.tenant("acme").append(run, [entries.note("n")], epoch=1)
        journal.tenant("acme").anchor_open()
    case.publish()
    verified = answer(case.verify(case.prove("acme", "open-2"), "-o", "json"))
    assert (verified["leaf_kind"], verified["seq"], verified["tenant_head"]["size"]) == ("anchor-batch", 1, 4)


def test_a_proof_is_monitored_once_the_monitor_has_followed_the_tenant_so_far(case: Case) -> None:
    case.publish()
    case.tiles()
    case.monitor()
    state = ("--monitored", str(case.folder / "seen.db"))
    files = case.prove("acme", "b")
    verified = answer(case.verify(files, *state, "-o", "json"))
    assert verified["monitored"] is True
    assert not any("monitored" in line for line in verified["not_checked"])
    assert ", monitored\n" in case.verify(files, *state).stdout
    case.seal("acme", "d")
    case.publish()
    newer = case.prove("acme", "d")
    unread = answer(case.verify(newer, *state, "-o", "json"))
    assert unread["monitored"] is False
    assert any("the monitor has read the store log up to size 2" in line for line in unread["not_checked"])
    tag = bytes.fromhex(unread["tenant_head"]["tag"])
    shutil.move(case.tiles() / tenant_path(tag), case.folder / "away")
    case.monitor(code=1)
    behind = answer(case.verify(newer, *state, "-o", "json"))
    assert behind["monitored"] is False
    assert any("could not follow the tenant's log so far" in line for line in behind["not_checked"])
    assert answer(case.verify(files, *state, "-o", "json"))["monitored"] is True
    shutil.move(case.folder / "away", case.folder / "tiles" / tenant_path(tag))
    case.monitor()
    assert answer(case.verify(newer, *state, "-o", "json"))["monitored"] is True


def test_a_head_that_the_monitor_does_not_have_is_refused(case: Case) -> None:
    """The store log was forked after it had been signed: the same keys sign another history."""
    shutil.copytree(case.folder / "s", case.folder / "copy")
    case.publish()
    case.tiles()
    case.monitor()
    shutil.rmtree(case.folder / "s")
    (case.folder / "copy").rename(case.folder / "s")
    case.seal("acme", "another")
    case.seal("beta", "another")
    case.publish()
    result = case.verify(case.prove("acme", "another"), "--monitored", str(case.folder / "seen.db"), code=3)
    assert "the store log shows two histories, keep both" in result.stderr


def test_a_proof_of_an_ordinary_log_takes_no_monitor(case: Case) -> None:
    case.publish()
    case.tiles()
    case.monitor()
    files = case.prove("acme", "b")
    proof = ProofFile.parse(files[0].read_bytes())
    files[0].write_bytes(ProofFile(proof.index, proof.proof, proof.checkpoint).encode())
    result = case.verify(files, "--monitored", str(case.folder / "seen.db"), code=2)
    assert "--monitored is for a proof through a store log" in result.stderr


def test_the_head_of_another_tenant_proves_nothing(case: Case) -> None:
    case.publish()
    beta, acme = case.prove("beta", "x"), case.prove("acme", "b")
    result = case.verify((beta[0], acme[1]), code=3)
    assert "is that of another tenant's log" in result.stderr


@pytest.mark.parametrize("part", ["index", "path", "head", "adoption"])
def test_a_proof_with_another_part_is_refused(case: Case, part: str) -> None:
    case.publish()
    files = case.prove("acme", "b")
    file = ProofFile.parse(files[0].read_bytes())
    assert file.extra is not None
    path = HeadProof.parse(file.extra)
    head = path.head
    changed = {
        "index": HeadProof(head, 0, 0, path.proof),
        "path": HeadProof(head, 0, 1, path.proof[:1]),
        "head": HeadProof(TenantHead(head.tag, head.size, bytes(32)), 0, 1, path.proof),
        "adoption": HeadProof(head, 1, 1, path.proof),
    }[part]
    files[0].write_bytes(ProofFile(file.index, file.proof, file.checkpoint, changed.encode()).encode())
    case.verify(files, code=3)


def test_a_leaf_that_the_head_does_not_cover_has_no_proof_yet(case: Case) -> None:
    case.publish()
    case.seal("acme", "later")
    args = ("--tenant", "acme", "log", "proof", "later", "--store-log")
    assert "below the tenant's newest published head" in case.call(*args, "-o", "tlog-proof", code=4).stderr
    assert "--store-log is for -o tlog-proof" in case.call(*args, code=2).stderr


def test_an_adoption_stays_among_what_was_not_checked(case: Case) -> None:
    case.adopt("acme")
    case.publish()
    verified = answer(case.verify(case.prove("acme", "b"), "-o", "json"))
    assert (verified["index"], verified["tenant_head"]["size"]) == (2, 4)
    assert any("before record 1 of its operator acts" in line for line in verified["not_checked"])


def test_a_head_that_the_store_log_does_not_have_proves_nothing(case: Case) -> None:
    case.publish()
    files = case.prove("acme", "b")
    published = ProofFile.parse(files[0].read_bytes())
    case.seal("acme", "later")
    with case.open() as journal:
        journal.store_log.gather()
        found = journal.store_log.inclusion_proof("acme", "b")
    assert found is not None
    forged = ProofFile(published.index, published.proof, published.checkpoint, found.head.encode())
    files[0].write_bytes(forged.encode())
    assert "the head does not stand at index" in case.verify(files, code=3).stderr


def test_a_store_log_without_a_key_says_how_to_make_one_and_takes_no_tenants_key(case: Case, tmp_path: Path) -> None:
    keys = str(tmp_path / "keys")
    for verb in (["checkpoint", "--sign"], ["publish", "--no-policy"]):
        told = case.call("log", *verb, "--store-log", "--keys", keys, code=4)
        assert f"`sealbook keys gen --log --origin {STORE_ORIGIN} --exact`" in told.stderr
    ring = Keyring(keys)
    ring.generate(Purpose.LOG, STORE_ORIGIN, created=0, tenant="acme")
    for verb in (["checkpoint", "--sign"], ["publish", "--no-policy"]):
        told = case.call("log", *verb, "--store-log", "--keys", keys, code=5)
        assert "belongs to the log of tenant acme" in told.stderr
    with case.open() as journal:
        assert journal.store_log.checkpoint().size == 0, "nothing is gathered for a log that cannot be signed"


def test_a_signed_store_log_is_gathered_under_no_other_name_and_readers_are_told(case: Case) -> None:
    case.publish()
    case.seal("acme", "d")
    told = case.call("log", "gather", code=5, store_origin="example.com/other")
    assert STORE_ORIGIN in told.stderr
    for verb in (["head"], ["checkpoint"]):
        told = case.call("log", *verb, "--store-log", store_origin="example.com/other")
        assert f"was signed as {STORE_ORIGIN}: --store-origin" in told.stderr
    assert "was signed" not in case.call("log", "head", "--store-log").stderr
    assert "size 4" in case.call("log", "gather").stdout
