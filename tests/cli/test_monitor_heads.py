"""A monitor of a store log: each tenant's heads are followed from one to the next, through the tenant's own tiles."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from published_log import ORIGIN, PublishedLog, log_signer, signed_note

from sealbook.cli.main import cli
from sealbook.cli.monitoring import monitor
from sealbook.cli.monitoring.monitor import visit
from sealbook.cli.monitoring.state import MonitorState
from sealbook.cli.serving.tiles import Beside, FolderOfTiles, write_tiles
from sealbook.merkle import Checkpoint, VerificationError, tree
from sealbook.merkle.policy import Policy, PolicyLog
from sealbook.merkle.tenant_head import TenantHead
from sealbook.merkle.tiles import tenant_path

POLICY = Policy((PolicyLog(log_signer().key),), (), (), None)
ACME, BETA = bytes([0xAC]) * 32, bytes([0xBE]) * 32
Place = tuple[bytes, int, PublishedLog]  # (tag, size, the tenant's log)


class Heads:
    """A store log as `write_tiles` takes it."""

    def __init__(self, heads: Sequence[TenantHead]) -> None:
        self.leaves = [head.encode() for head in heads]
        self.nodes = dict(tree.added(0, [head.hash() for head in heads], lambda wanted: []))

    def leaf_entries(self, start: int, limit: int) -> list[bytes]:
        return self.leaves[start : start + limit]

    def tree_nodes(self, nodes: Sequence[tree.Node]) -> list[bytes]:
        return [self.nodes[node] for node in nodes]


@dataclass
class Case:
    """A folder that a store log publishes, and a monitor of it."""

    folder: Path
    heads: list[TenantHead] = field(default_factory=list)
    tenants: dict[bytes, tuple[int, PublishedLog]] = field(default_factory=dict)

    @property
    def tiles(self) -> Path:
        return self.folder / "tiles"

    def publish(self, *places: Place, served: bool = True) -> None:
        """Publish heads of these logs at these sizes; with `served` False without the tenants' tiles."""
        beside = []
        for tag, size, log in places:
            root = log.checkpoint(size).root
            self.heads.append(TenantHead(tag, size, root))
            before, _ = self.tenants.get(tag, (0, log))
            beside.append(Beside(tenant_path(tag), log, before, size, root))
            self.tenants[tag] = size, log
        log_of_heads = Heads(self.heads)
        root = tree.root(len(self.heads), log_of_heads.tree_nodes)
        note = signed_note(Checkpoint(ORIGIN, len(self.heads), root))
        write_tiles(self.tiles, log_of_heads, note, beside=lambda old, new: beside if served else ())

    def visit(self) -> monitor.Visit:
        with MonitorState.opened(self.folder / "seen.db") as state:
            return visit(FolderOfTiles(self.tiles), POLICY, state, str(self.tiles))

    def monitored(self, tag: bytes) -> int:
        """Up to which position the tag is monitored."""
        with MonitorState.opened(self.folder / "seen.db") as state:
            return state.monitored(1, tag)

    def call(self, *args: str) -> Result:
        key = str(log_signer().key)
        command = ["log", "monitor", str(self.tiles), "--state", str(self.folder / "seen.db"), "--vkey", key, *args]
        return CliRunner().invoke(cli, command)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


@pytest.mark.parametrize("sizes", [(1, 2, 3), (5, 255, 256, 257), (256, 600), (300, 70_000)])
def test_a_tenants_log_that_only_grows_is_monitored_head_by_head(case: Case, sizes: tuple[int, ...]) -> None:
    acme = PublishedLog(sizes[-1])
    for number, size in enumerate(sizes):
        case.publish((ACME, size, acme))
        found = case.visit()
        assert (found.monitored, found.unmonitored, case.monitored(ACME)) == (1, (), number)


def test_several_heads_of_several_tenants_are_followed_in_one_visit(case: Case) -> None:
    acme, beta = PublishedLog(9), PublishedLog(4, fork=7)
    case.publish((ACME, 2, acme), (BETA, 1, beta), (ACME, 7, acme), (BETA, 4, beta), (ACME, 9, acme))
    found = case.visit()
    assert (found.monitored, found.unmonitored) == (2, ())
    assert (case.monitored(ACME), case.monitored(BETA)) == (4, 3)


def test_the_first_head_of_a_tenant_needs_no_tiles(case: Case) -> None:
    case.publish((ACME, 5, PublishedLog(5)), served=False)
    assert case.visit().monitored == 1


def test_a_tenant_whose_tiles_are_not_served_is_named_and_taken_up_again_later(case: Case) -> None:
    acme, beta = PublishedLog(9), PublishedLog(9, fork=7)
    case.publish((ACME, 2, acme), (BETA, 2, beta))
    case.visit()
    case.publish((ACME, 5, acme), (BETA, 5, beta))
    shutil.move(case.tiles / tenant_path(ACME), case.folder / "away")
    found = case.visit()
    assert (found.monitored, found.unmonitored) == (1, (ACME,))
    assert (case.monitored(ACME), case.monitored(BETA)) == (0, 3)
    result = case.call()
    assert result.exit_code == 1
    assert f"not monitored: tenant tag {ACME.hex()}" in result.stdout
    assert "monitored: the logs of 1 tenant" in result.stdout
    shutil.move(case.folder / "away", case.tiles / tenant_path(ACME))
    assert (case.visit().unmonitored, case.monitored(ACME)) == ((), 2)
    assert case.call().exit_code == 0


@pytest.mark.parametrize("later", [False, True], ids=["in one visit", "between two visits"])
@pytest.mark.parametrize("sizes", [(5, 9), (256, 257), (200, 600)])
def test_a_forked_tenant_is_named(case: Case, sizes: tuple[int, int], later: bool) -> None:
    old, new = sizes
    case.publish((ACME, old, PublishedLog(old)), (BETA, 1, PublishedLog(1)))
    if later:
        case.visit()
    shutil.rmtree(case.tiles / "tenant")
    case.tenants.clear()
    case.publish((ACME, new, PublishedLog(new, fork=1)))
    what = f"leaf 2, tenant tag {ACME.hex()}: size {new} does not begin with size {old}"
    with pytest.raises(VerificationError, match=what):
        case.visit()
    result = case.call()
    assert result.exit_code == 3
    assert what in result.stderr and "the tenant's log was forked" in result.stderr
    assert case.call().exit_code == 3  # a fork stays one


def test_a_fork_after_heads_that_could_not_be_followed_is_named_once_they_can_be(case: Case) -> None:
    case.publish((ACME, 5, PublishedLog(5)))
    case.publish((ACME, 9, PublishedLog(9, fork=1)), served=False)
    shutil.rmtree(case.tiles / "tenant")
    assert case.visit().unmonitored == (ACME,)
    fork = PublishedLog(9, fork=1)
    (case.tiles / "tenant").mkdir()
    write_tiles(case.folder / "fork", fork, fork.note(9))
    shutil.move(case.folder / "fork", case.tiles / tenant_path(ACME).rstrip("/"))
    with pytest.raises(VerificationError, match="the tenant's log was forked"):
        case.visit()


def test_tiles_that_are_not_those_of_the_head_are_refused(case: Case) -> None:
    acme = PublishedLog(9)
    case.publish((ACME, 5, acme), (ACME, 9, acme))
    tile = case.tiles / tenant_path(ACME) / "tile/0/000.p/9"
    data = tile.read_bytes()
    tile.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(VerificationError, match=r"its tiles lead to root .*, the head states"):
        case.visit()
    tile.write_bytes(data[:-1])
    with pytest.raises(VerificationError, match="288 bytes, not 287"):
        case.visit()


def test_a_partial_tile_that_is_gone_is_read_from_the_full_one(case: Case) -> None:
    acme = PublishedLog(256)
    case.publish((ACME, 5, acme), (ACME, 9, acme), (ACME, 256, acme))
    shutil.rmtree(case.tiles / tenant_path(ACME) / "tile/0/000.p")

    class FullTilesOnly(FolderOfTiles):
        def find(self, path: str) -> bytes | None:
            return None if "tenant" in path and "tile/0/000.p" in path else super().find(path)

    with MonitorState.opened(case.folder / "seen.db") as state:
        assert visit(FullTilesOnly(case.tiles), POLICY, state, "").unmonitored == ()


def test_sizes_of_a_tag_that_do_not_rise_are_refused(case: Case) -> None:
    acme = PublishedLog(9)
    case.publish((ACME, 5, acme), (BETA, 1, acme))
    case.visit()
    case.publish((ACME, 5, acme))
    with pytest.raises(VerificationError, match="size 5 follows size 5"):
        case.visit()


@pytest.mark.parametrize(
    "path",
    [
        lambda tag: f"{tenant_path(tag)}tile/entries/000.p/5",
        lambda tag: f"{tenant_path(tag)}checkpoint",
        lambda tag: f"{tenant_path(tag)}../checkpoint",
        lambda tag: f"{tenant_path(tag)}{tenant_path(tag)}tile/0/000.p/5",
        lambda tag: f"tenant/{tag.hex().upper()}/tile/0/000.p/5",
    ],
)
def test_nothing_but_hash_tiles_is_served_of_a_tenant(case: Case, path: Callable[[bytes], str]) -> None:
    acme = PublishedLog(5)
    case.publish((ACME, 5, acme))
    write_tiles(case.folder / "whole", acme, acme.note(5))
    shutil.copytree(case.folder / "whole", case.tiles / tenant_path(ACME), dirs_exist_ok=True)
    folder = FolderOfTiles(case.tiles)
    assert folder.find(f"{tenant_path(ACME)}tile/0/000.p/5") is not None
    assert folder.find(path(ACME)) is None
