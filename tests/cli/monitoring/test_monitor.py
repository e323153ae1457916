"""`log monitor`: what a log may do between two visits, what it may not, and which leaf is the newest of a run."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import stat
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from published_log import ORIGIN, PublishedLog, log_signer, publish, signed_note

from sealbook.cli.main import cli
from sealbook.cli.monitoring import monitor
from sealbook.cli.monitoring.monitor import UrlOfTiles, visit
from sealbook.cli.monitoring.state import MonitorState
from sealbook.cli.serving.tiles import FolderOfTiles, write_tiles
from sealbook.journal import EngineFailed, Journal, Tenant, entries
from sealbook.merkle import LeafEntry, LeafType, VerificationError, tree
from sealbook.merkle.entry import adopted_leaf
from sealbook.merkle.monitor import Leaf
from sealbook.merkle.note import sign_text
from sealbook.merkle.policy import Policy, PolicyLog
from sealbook.merkle.tenant_head import TenantHead

POLICY = Policy((PolicyLog(log_signer().key), PolicyLog(log_signer("example.com/new", 2).key)), (), (), None)
HEAD = bytes(range(32))


class Case:
    """A folder of tiles, and a monitor of it."""

    def __init__(self, folder: Path) -> None:
        self.tiles, self.state = folder / "tiles", folder / "seen.db"

    def publish(self, leaves: list[Leaf], origin: str = ORIGIN, seed: int = 1) -> None:
        """Let the folder be that of a log with these leaves."""
        log = PublishedLog()
        log.entries = [leaf.encode() for leaf in leaves]
        log.nodes = dict(tree.added(0, [leaf.hash() for leaf in leaves], lambda wanted: []))
        shutil.rmtree(self.tiles, ignore_errors=True)
        write_tiles(self.tiles, log, signed_note(log.checkpoint(origin=origin), signer=log_signer(origin, seed)))

    def visit(self, policy: Policy = POLICY) -> monitor.Visit:
        with MonitorState.opened(self.state) as state:
            return visit(FolderOfTiles(self.tiles), policy, state, str(self.tiles))

    def refused(self, reason: str) -> None:
        """The visit is refused, and nothing of it is remembered."""
        before = self.remembered()
        with pytest.raises(VerificationError, match=reason):
            self.visit()
        assert self.remembered() == before

    def remembered(self) -> list[Any]:
        with closing(sqlite3.connect(self.state)) as database:
            tables = [row[0] for row in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
            return [database.execute(f"SELECT * FROM {table}").fetchall() for table in sorted(tables)]


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def anchors(count: int, fork: int = 0) -> list[Leaf]:
    return [
        LeafEntry(LeafType.ANCHOR, (number + 2**64 * fork).to_bytes(32), number + 1, HEAD) for number in range(count)
    ]


# --- what a log may do ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(0, 1, 2), (5, 5, 6), (255, 256, 257), (3, 300, 600), (513, 514, 770)])
def test_a_log_that_grows_is_followed_leaf_by_leaf(case: Case, sizes: tuple[int, ...]) -> None:
    old = 0
    for size in sizes:
        case.publish(anchors(size))
        found = case.visit()
        assert (found.old_size, found.checkpoint.size, found.went_on_from) == (old, size, None)
        old = size
    with MonitorState.opened(case.state) as state:
        for position in range(old):
            newest = state.newest(1, position.to_bytes(32), old)
            assert newest is not None and (newest.position, newest.leaf) == (position, anchors(old)[position])


def test_a_partial_bundle_that_is_gone_is_read_from_the_full_one(case: Case) -> None:
    case.publish(anchors(300))
    shutil.rmtree(case.tiles)
    log = PublishedLog()
    log.entries = [leaf.encode() for leaf in anchors(300)]
    log.nodes = dict(tree.added(0, [leaf.hash() for leaf in anchors(300)], lambda wanted: []))
    write_tiles(case.tiles, log, log.note(300))
    (case.tiles / "checkpoint").write_bytes(log.note(200))
    assert case.visit().checkpoint.size == 200


def test_a_log_of_tenant_heads_is_followed(case: Case) -> None:
    heads: list[Leaf] = [TenantHead(HEAD, 1, HEAD), TenantHead(bytes(32), 1, HEAD), TenantHead(HEAD, 2, HEAD)]
    case.publish(heads)
    case.visit()
    case.publish([*heads, TenantHead(bytes(32), 1, HEAD)])
    case.refused("leaf 3, tenant tag 0000.*: size 1 follows size 1")


# --- what it may not -----------------------------------------------------------------------------------------------


def test_a_log_that_became_smaller_is_refused(case: Case) -> None:
    case.publish(anchors(9))
    case.visit()
    case.publish(anchors(8))
    case.refused("the log has size 8, and size 9 was seen before")


@pytest.mark.parametrize("size", [9, 10, 300])
def test_a_forked_log_is_refused(case: Case, size: int) -> None:
    case.publish(anchors(9))
    case.visit()
    case.publish([*anchors(8), *anchors(size, fork=1)[8:]])
    case.refused("the log was forked")


def test_entries_that_are_not_those_that_were_signed_are_refused(case: Case) -> None:
    case.publish(anchors(9))
    case.visit()
    case.publish(anchors(12))
    bundle = case.tiles / "tile/entries/000.p/12"
    data = bundle.read_bytes()
    bundle.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    case.refused("its entries are not those that were signed")
    bundle.unlink()
    case.refused("does not serve tile/entries/000.p/12")


@pytest.mark.parametrize(
    ("leaf", "reason"),
    [
        (LeafEntry(LeafType.ANCHOR, (2).to_bytes(32), 3, HEAD), "record 3 follows record 3"),
        (LeafEntry(LeafType.SEAL, (4).to_bytes(32), 9, HEAD), "sealed at record 7, nothing may follow"),
        (LeafEntry(LeafType.ANCHOR_BATCH, HEAD, 77, bytes(32)), "covers arrival 77 and follows one that covers 77"),
        (adopted_leaf("old", 1, HEAD), "only the first leaf may"),
        (TenantHead(HEAD, 1, HEAD), "heads of tenants and entries of runs"),
    ],
)
@pytest.mark.parametrize("between", [False, True], ids=["in one visit", "between two visits"])
def test_a_log_that_breaks_a_rule_is_refused(case: Case, leaf: Leaf, reason: str, between: bool) -> None:
    good: list[Leaf] = [
        LeafEntry(LeafType.ANCHOR_BATCH, HEAD, 77, bytes(32)),
        *anchors(4),
        LeafEntry(LeafType.SEAL, (4).to_bytes(32), 7, HEAD),
    ]
    if between:
        case.publish(good)
        case.visit()
    case.publish([*good, leaf])
    if between:
        case.refused(reason)
        return
    with pytest.raises(VerificationError, match=reason):
        case.visit()


def test_a_checkpoint_that_nobody_trusted_signed_is_refused(case: Case) -> None:
    case.publish(anchors(3), seed=9)
    with pytest.raises(VerificationError):
        case.visit()


def test_a_file_that_is_no_state_is_left_as_it_is(case: Case) -> None:
    case.publish(anchors(3))
    case.state.write_bytes(b"something else that somebody keeps here, longer than a header" * 20)
    before = case.state.read_bytes()
    with pytest.raises(VerificationError, match="is not the state of a monitor"):
        case.visit()
    assert case.state.read_bytes() == before
    case.state.unlink()
    with closing(sqlite3.connect(case.state)) as database:
        database.execute("CREATE TABLE theirs (a)")
        database.commit()
    with pytest.raises(VerificationError, match="is not the state of a monitor"):
        case.visit()


# --- a log that goes on under another origin -------------------------------------------------------------------------


def test_a_log_that_goes_on_from_what_was_seen_is_followed_and_what_it_lost_is_named(case: Case) -> None:
    case.publish(anchors(9))
    old = case.visit().checkpoint
    adopted = adopted_leaf(ORIGIN, 9, old.root)
    case.publish([adopted, *anchors(7), *anchors(20, fork=1)[8:]], "example.com/new", 2)
    found = case.visit()
    assert (found.went_on_from, found.lost, found.old_size) == (ORIGIN, (7, 8), 0)
    case.publish([adopted, *anchors(7), *anchors(21, fork=1)[8:]], "example.com/new", 2)
    found = case.visit()
    assert (found.went_on_from, found.old_size, found.checkpoint.size) == (None, 20, 21)


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (adopted_leaf(ORIGIN, 8, HEAD), "goes on from size 8, and size 9 had been seen"),
        (adopted_leaf(ORIGIN, 9, HEAD), "goes on from root"),
        (adopted_leaf("another", 9, HEAD), "adopts another log"),
        (anchors(1)[0], "adopts no other log"),
    ],
)
def test_a_log_that_goes_on_from_something_else_is_refused(case: Case, first: Leaf, reason: str) -> None:
    case.publish(anchors(9))
    case.visit()
    case.publish([first, *anchors(12)[1:]], "example.com/new", 2)
    case.refused(f"'example.com/new' is not '{ORIGIN}', the log that is followed: .*{reason}")


# --- over HTTP -----------------------------------------------------------------------------------------------------


def test_a_url_is_asked_for_what_a_folder_has(case: Case) -> None:
    case.publish(anchors(300))
    asked: list[str] = []

    def get(url: str) -> bytes | None:
        asked.append(url)
        return FolderOfTiles(case.tiles).find(url.removeprefix("https://log.example/a/"))

    with MonitorState.opened(case.state) as state:
        assert visit(UrlOfTiles("https://log.example/a/", get), POLICY, state, "").checkpoint.size == 300
    assert asked == [
        f"https://log.example/a/{path}" for path in ("checkpoint", "tile/entries/000", "tile/entries/001.p/44")
    ]


def answered_by(serve: Callable[[socket.socket], None]) -> bytes | None:
    """What the monitor makes of a server that does this with the one connection that comes."""
    pytest.importorskip("httpx2", reason="the extra `witness` is not installed")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):  # it hangs up when it has had enough
                connection.recv(65536)
                serve(connection)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            with monitor.source_of(f"http://127.0.0.1:{listener.getsockname()[1]}") as source:
                return source.find("checkpoint")
        finally:
            thread.join()


def test_an_answer_without_end_is_refused() -> None:
    def endless(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
        while True:
            connection.sendall(b"x" * 65536)

    with pytest.raises(VerificationError, match="more than 1000000 bytes"):
        answered_by(endless)


def test_an_answer_that_comes_ever_so_slowly_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "BODY_SECONDS_MAX", 0.0)

    def slow(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
        while True:
            connection.sendall(b"x")

    with pytest.raises(EngineFailed, match="not all of it came within 0 seconds"):
        answered_by(slow)


# --- the command ---------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Result]:
    """The program over a store whose log is published in `tiles` before each call of `log monitor`."""
    store = tmp_path / "s"
    with Journal.open(store, create=True, origin=ORIGIN) as journal:
        fill(journal.tenant())

    def call(*args: str) -> Result:
        state = [] if "--state" in args else ["--state", str(tmp_path / "seen.db")]
        options = [*state, "--vkey", str(log_signer().key)]
        head, rest = (["-D", str(store), "--origin", ORIGIN], list(args))
        if args[:2] == ("log", "monitor"):
            with Journal.open(store, origin=ORIGIN) as journal:
                publish(journal.tenant())
            written = CliRunner().invoke(cli, [*head, "log", "tiles", "--to", str(tmp_path / "tiles")])
            assert written.exit_code == 0, written.output
            rest = ["log", "monitor", str(tmp_path / "tiles"), *options, *args[2:]]
        return CliRunner().invoke(cli, [*head, *rest], prog_name="sealbook")

    return call


def fill(tenant: Tenant) -> None:
    tenant.append("r", [entries.note("one")], epoch=1)
    tenant.anchor("r")
    tenant.append("r", [entries.note("two")], epoch=1)
    tenant.append("other", [entries.concluded("completed")], epoch=1, seal=True)


def test_the_newest_leaf_of_a_run_is_told_as_of_any_size(run: Callable[..., Result], tmp_path: Path) -> None:
    records = tmp_path / "records"
    assert run("run", "r", "-o", "records", "--to", str(records)).exit_code == 0
    of_r = ("--run", "r", "--records", str(records))
    first = json.loads(run("log", "monitor", *of_r, "-o", "json").stdout)
    assert (first["old_size"], first["size"]) == (0, 2)
    assert (first["leaf"]["leaf_kind"], first["leaf"]["seq"], first["leaf"]["index"]) == ("anchor", 1, 0)
    tag = first["leaf"]["tag"]
    assert run("anchor", "r").exit_code == 0
    second = json.loads(run("log", "monitor", "--run-tag", tag, "-o", "json").stdout)
    assert (second["old_size"], second["leaf"]["seq"], second["leaf"]["index"]) == (2, 2, 2)
    earlier = json.loads(run("log", "monitor", "--run-tag", tag, "--size", "2", "-o", "json").stdout)
    assert (earlier["leaf"]["seq"], earlier["leaf"]["as_of_size"]) == (1, 2)
    assert "newest leaf: anchor of record 2 at log position 2, as of size 3" in run("log", "monitor", *of_r).stdout
    assert run("log", "monitor", "--run-tag", "00" * 32).exit_code == 4


def test_an_older_state_of_a_run_offered_as_the_newest_is_named(run: Callable[..., Result], tmp_path: Path) -> None:
    records = tmp_path / "records"
    assert run("run", "r", "-o", "records", "--to", str(records)).exit_code == 0
    records.write_bytes(records.read_bytes().splitlines(keepends=True)[0])
    of_r = ("--run", "r", "--records", str(records))
    assert run("log", "monitor", *of_r).exit_code == 0
    assert run("anchor", "r").exit_code == 0
    refused = run("log", "monitor", *of_r)
    assert refused.exit_code == 3
    assert "is the anchor of record 2: the records end at 1, so they are not all there were" in refused.stderr


def test_a_log_put_back_to_an_older_state_is_exit_code_3(run: Callable[..., Result], tmp_path: Path) -> None:
    assert run("log", "monitor").exit_code == 0
    older = tmp_path / "older"
    shutil.copytree(tmp_path / "tiles", older)
    assert run("anchor", "r").exit_code == 0
    assert run("log", "monitor").exit_code == 0
    shutil.rmtree(tmp_path / "tiles")
    shutil.copytree(older, tmp_path / "tiles")
    options = ["--state", str(tmp_path / "seen.db"), "--vkey", str(log_signer().key)]
    refused = CliRunner().invoke(cli, ["log", "monitor", str(tmp_path / "tiles"), *options])
    assert refused.exit_code == 3 and "size 3 was seen before" in refused.stderr


@pytest.mark.parametrize(
    "args",
    [("--run", "r"), ("--size", "1"), ("--run-tag", "zz"), ("--policy", "x"), ("--run-tag", "00")],
)
def test_options_that_do_not_belong_together_are_a_usage_error(run: Callable[..., Result], args: tuple[str]) -> None:
    assert run("log", "monitor", *args).exit_code == 2


@pytest.mark.parametrize(
    "where", ["ftp://log.example/a", "http://", "https://h:x/", "://", "https://h/a?b", "file:///t"]
)
def test_what_is_neither_a_folder_nor_a_url_is_a_usage_error(tmp_path: Path, where: str) -> None:
    state = tmp_path / "s"
    result = CliRunner().invoke(cli, ["log", "monitor", where, "--state", str(state), "--vkey", str(log_signer().key)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{where!r} is neither a folder nor an http or https URL" in result.stderr
    assert not state.exists()


def test_what_a_monitor_remembers_is_its_owners_alone(run: Callable[..., Result], tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert run("log", "monitor").exit_code == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "seen.db").stat().st_mode) == 0o600


def test_a_state_that_cannot_be_written_is_said_in_a_line(run: Callable[..., Result], tmp_path: Path) -> None:
    state = tmp_path / "none" / "seen.db"
    result = run("log", "monitor", "--state", str(state))
    assert (result.exit_code, result.stdout) == (6, "")
    assert result.stderr == f"sealbook: {state}: No such file or directory\n"


def test_a_log_that_is_nowhere_is_not_found_and_leaves_no_state(tmp_path: Path) -> None:
    args = ["log", "monitor", str(tmp_path / "no"), "--state", str(tmp_path / "s"), "--vkey", str(log_signer().key)]
    assert CliRunner().invoke(cli, args).exit_code == 4
    assert not (tmp_path / "s").exists()


# --- an older copy put back, adopted, and followed -------------------------------------------------------------------


def test_a_store_put_back_to_yesterday_goes_on_and_its_monitor_follows(tmp_path: Path) -> None:
    store, tiles, seen = tmp_path / "s", tmp_path / "tiles", tmp_path / "seen.db"
    keys = [log_signer("log"), log_signer("log-2", 2)]
    policy = tmp_path / "policy.txt"
    policy.write_text("".join(f"log {signer.key}\n" for signer in keys) + "quorum none\n")

    def issue(*args: str) -> Result:
        head = ["-D", str(store), "--origin", "log"]
        return CliRunner().invoke(cli, [*head, *args], prog_name="sealbook", env={"SEALBOOK_KEYS": str(tmp_path / "k")})

    def publish_tiles() -> bytes:
        with Journal.open(store, origin="log") as journal:
            tenant = journal.tenant()
            signer = next(signer for signer in keys if signer.key.name == tenant.origin)
            kept = tenant.sign_checkpoint(lambda checkpoint, consistent: [sign_text(checkpoint.text(), signer)])
            tenant.publish_checkpoint(kept.checkpoint.size)
            note = tenant.published_checkpoint()
        assert note is not None
        written = issue("log", "tiles", "--to", str(tiles))
        assert written.exit_code == 0, written.output
        return note

    def monitored() -> Result:
        return issue("log", "monitor", str(tiles), "--state", str(seen), "--policy", str(policy), "-o", "json")

    with Journal.open(store, create=True, origin="log") as journal:
        fill(journal.tenant())
    shutil.copytree(store, tmp_path / "yesterday")
    assert issue("anchor", "r").exit_code == 0
    last = tmp_path / "last.txt"
    last.write_bytes(publish_tiles())
    assert json.loads(monitored().stdout)["size"] == 3

    shutil.rmtree(store)
    shutil.copytree(tmp_path / "yesterday", store)
    adopt = ("log", "adopt", "--new-origin", "log-2", "--old-checkpoint", str(last), "--actor", "ada")
    untrusted = issue(*adopt)
    assert untrusted.exit_code == 2 and "no key of log is in" in untrusted.stderr
    foreign = issue(*adopt, "--vkey", str(log_signer("log", 3).key))
    assert foreign.exit_code == 3
    adopted = issue(*adopt, "--policy", str(policy), "-o", "json")
    assert adopted.exit_code == 0, adopted.stderr
    assert (json.loads(adopted.stdout)["origin"], json.loads(adopted.stdout)["size"]) == ("log-2", 3)
    again = issue(*adopt, "--policy", str(policy))
    assert again.exit_code == 5 and "is of another log than log-2" in again.stderr
    shutil.rmtree(tiles)
    publish_tiles()
    followed = json.loads(monitored().stdout)
    assert (followed["went_on_from"], followed["old_size"], followed["size"]) == ("log", 0, 3)
    assert followed["lost"] == [2]  # the anchor that yesterday's copy does not have
    assert json.loads(monitored().stdout)["went_on_from"] is None
    assert issue("verify").exit_code == 0
