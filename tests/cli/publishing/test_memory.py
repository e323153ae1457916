"""What is remembered of witnesses: durable, private, and never taken for something else."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from sealbook.cli.publishing.memory import Charge, KnownWitness, Memory, PublishingStopped
from sealbook.journal import Busy, Corrupt, NotFound
from sealbook.merkle.witness import Evidence
from sealbook.merkle.witness_client import Alarm, AlarmKind

ORIGIN = "example.com/log"
KNOWN = {
    "https://w1.example": KnownWitness(size=9, cosigned=9, cosigned_at=1_795_939_200),
    "https://w2.example": KnownWitness(failures=3, failed_at=1_795_939_201, failure="503: “busy”"),
}


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    found = Memory(tmp_path / "keys", ORIGIN, lock_timeout=0)
    with found.held():
        pass
    return found


def test_it_is_empty_at_first(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "keys", ORIGIN)
    assert (memory.known(), memory.stopped()) == ({}, None)
    memory.check_unstopped()
    assert not (tmp_path / "keys").exists()


def test_it_keeps_what_it_is_told_in_files_of_its_owner(memory: Memory) -> None:
    memory.keep(KNOWN)
    assert Memory(memory.folder.parent.parent, ORIGIN).known() == KNOWN
    for path in memory.folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (memory.folder, memory.folder.parent, memory.folder.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_logs_do_not_share_it(memory: Memory) -> None:
    memory.keep(KNOWN)
    assert Memory(memory.folder.parent.parent, f"{ORIGIN}/acme").known() == {}


def test_one_publisher_holds_it_at_a_time(memory: Memory) -> None:
    with memory.held(), pytest.raises(Busy), Memory(memory.folder.parent.parent, ORIGIN, lock_timeout=0).held():
        pass


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data.replace(b"9", b"8"), lambda data: b""])
@pytest.mark.parametrize("name", ["memory", "stopped"])
def test_damage_is_found_and_not_taken_for_nothing(memory: Memory, name: str, damage: object) -> None:
    memory.keep(KNOWN)
    memory.stop([Charge("https://w1.example", "AHEAD", "size 9", "file")], at=9)
    path = memory.folder / name
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(Corrupt, match=name):
        memory.known() if name == "memory" else memory.check_unstopped()


def test_another_log_s_file_is_refused(memory: Memory) -> None:
    memory.keep(KNOWN)
    other = Memory(memory.folder.parent.parent, "other.example")
    with other.held():
        (other.folder / "memory").write_bytes((memory.folder / "memory").read_bytes())
    with pytest.raises(Corrupt, match="another log"):
        other.known()


def test_an_alarm_stops_it_until_it_is_resolved_and_its_evidence_stays(memory: Memory) -> None:
    held = Evidence("ahead: 30, ours is 9", ORIGIN, 77, b"our note", b"request", b"x" * 100_000)
    alarm = Alarm(AlarmKind.AHEAD, held, 30)
    charge = memory.charge("https://w1.example", alarm, cosigned=b"", served=b"their note")
    memory.keep(KNOWN)
    memory.stop([charge], at=78)
    with pytest.raises(PublishingStopped, match="ahead: 30, ours is 9"):
        memory.check_unstopped()
    evidence = Evidence.decode(Path(charge.evidence).read_bytes())
    assert (evidence.reason, evidence.held, evidence.request) == (held.reason, held.held, held.request)
    assert json.loads(Path(charge.evidence).read_bytes())["witness"] == "https://w1.example"
    assert memory.resolve(at=80).charges == (charge,)
    memory.check_unstopped()
    assert memory.known() == {"https://w2.example": KNOWN["https://w2.example"]}, "who was charged is asked anew"
    assert Path(charge.evidence).exists()
    assert (memory.folder / "resolved-80").exists()


def test_what_is_not_stopped_cannot_be_resolved(memory: Memory) -> None:
    with pytest.raises(NotFound):
        memory.resolve(at=1)
