"""docs/json.md is held to the program: what `-o json` prints has the members that its tables name, of their types."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result
from damaging import flip, overwrite, stored
from project import ROOT
from published_log import log_signer, publish, signed_note, witness_signer
from witness_world import NAME, GrowingLog

from sealbook.cli import docs
from sealbook.cli.commands.log.monitor import _leaf_object
from sealbook.cli.monitoring.state import Newest
from sealbook.cli.publishing.memory import Charge, KnownWitness, Memory
from sealbook.cli.witnessing.binding import open_state
from sealbook.cli.witnessing.cosigner import Cosigner
from sealbook.journal import EffectKey, Journal, entries
from sealbook.journal.engine.clock import system_clock
from sealbook.journal.engine.lmdb import LmdbEngine
from sealbook.journal.engine.port import Writes
from sealbook.journal.keys.public_halves import Purpose
from sealbook.journal.keys.ring import Keyring
from sealbook.journal.records.signatures import Ed25519Signer
from sealbook.journal.schema import tables
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.tenant_head import TenantHead

PAGE = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
MEMBER = re.compile(r"^\| `([\w.]+)`(\??) \| (.+?) \| .+ \|$", re.M)
VERB = re.compile(r"`(sealbook [a-z -]+?)(?: [A-Z]+| --\w+)?`")
STORY, RUN = "A run's story", "A run"
AUDIT, REPORT = "An audit report", "A verify report"
STORE_LOG = ("--store-origin", "example.com/store")


@dataclass(frozen=True)
class Member:
    name: str
    optional: bool
    type: str


def sections(text: str) -> dict[str, tuple[str, list[Member]]]:
    """Each heading of the page with a table of members: the paragraph below it, and the table's rows."""
    found = {}
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        title, _, body = part.partition("\n")
        members = [Member(match[1], match[2] == "?", match[3]) for match in MEMBER.finditer(body)]
        found[title] = (body.partition("\n| ")[0], members)
    for whole, part in ((STORY, RUN), (AUDIT, REPORT)):
        found[whole] = (found[whole][0], [*found[part][1], *found[whole][1]])
    return found


SECTIONS = sections(PAGE)
TITLES = {title.lower(): title for title in SECTIONS}


def is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_hex(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"([0-9a-f]{2})*", value) is not None


def is_base64(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9+/]*={0,2}", value) is not None


def is_instant(value: object) -> bool:
    return isinstance(value, str) and value.endswith("Z") and datetime.fromisoformat(value) is not None


TYPES: dict[str, Callable[[object], bool]] = {
    "text": lambda value: isinstance(value, str),
    "number": is_number,
    "float": lambda value: isinstance(value, float),
    "yes/no": lambda value: isinstance(value, bool),
    "hex": is_hex,
    "base64": is_base64,
    "instant": is_instant,
    "data": lambda value: isinstance(value, dict),
    "object": lambda value: isinstance(value, dict),
}


def faults(title: str, value: dict[str, Any], parent: str = "") -> list[str]:
    """How this object differs from the table of the section."""
    members = [member for member in SECTIONS[title][1] if member.name.rpartition(".")[0] == parent]
    names = {member.name.rpartition(".")[2]: member for member in members}
    found = [f"{title}: {parent}.{name} is not in the table" for name in value.keys() - names.keys()]
    missing = [name for name, member in names.items() if name not in value and not member.optional]
    found += [f"{title}: {parent}.{name} is not printed" for name in missing]
    for name, member in names.items():
        if name in value:
            found += type_faults(title, member, member.type, value[name])
    return found


def type_faults(title: str, member: Member, stated: str, value: Any) -> list[str]:
    """How this value differs from the type that the table states."""
    if stated.endswith(" or null"):
        return [] if value is None else type_faults(title, member, stated.removesuffix(" or null"), value)
    if stated.startswith("list of "):
        if not isinstance(value, list):
            return [f"{title}: {member.name} is no list"]
        below = stated.removeprefix("list of ")
        return [fault for item in value for fault in type_faults(title, member, below, item)]
    linked = re.fullmatch(r"\[(.+)\]\(#[\w-]+\)", stated)
    if linked:
        return faults(TITLES[linked[1]], value)
    if not TYPES[stated](value):
        return [f"{title}: {member.name} is no {stated}: {value!r}"]
    nested = any(each.name.startswith(f"{member.name}.") for each in SECTIONS[title][1])
    return faults(title, value, member.name) if nested else []


def printed_members(title: str, value: dict[str, Any]) -> set[str]:
    """The table's members that this object shows with a value, so that their types were looked at."""
    shown = set()
    for member in SECTIONS[title][1]:
        at: Any = value
        for name in member.name.split("."):
            at = at.get(name) if isinstance(at, dict) else None
        if at is not None:
            shown.add(member.name)
    return shown


# --- the program over a store that has one of everything -----------------------------------------------------------

Call = Callable[..., Result]
ORIGIN = "sealbook"


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, str]:
    return {"SEALBOOK_KEYS": str(tmp_path / "keys")}


@pytest.fixture
def told(call: Call, keys: dict[str, str]) -> Callable[..., list[dict[str, Any]]]:
    """The objects that a verb prints with `-o json`."""

    def run(*args: str, code: int = 0) -> list[dict[str, Any]]:
        result = call(*args, "-o", "json", env=keys)
        assert result.exit_code == code, (args, result.output)
        return [json.loads(line) for line in result.stdout.splitlines()]

    return run


Told = Callable[..., list[dict[str, Any]]]
KEY = EffectKey("restless", "ship")


def agree(title: str, objects: list[dict[str, Any]]) -> None:
    """All objects agree with the table."""
    assert objects
    assert [fault for each in objects for fault in faults(title, each)] == []


def check(title: str, objects: list[dict[str, Any]], *never: str) -> None:
    """All objects agree with the table, and each member but those that `never` have one here shows a value once."""
    agree(title, objects)
    shown = set().union(*(printed_members(title, each) for each in objects))
    assert {member.name for member in SECTIONS[title][1]} - shown == set(never)


def test_every_verb_that_prints_json_is_on_the_page() -> None:
    printing = {
        path
        for path, command, _ in docs.commands()
        for option in command.params
        if isinstance(option.type, click.Choice) and option.name == "form" and "json" in option.type.choices
    }
    named = {verb for introduction, _ in SECTIONS.values() for verb in VERB.findall(introduction)}
    assert len(printing) > 25
    assert named == printing


def test_every_type_on_the_page_is_defined_there() -> None:
    defined = set(re.findall(r"^\| ([\w/]+) \| .+ \|$", PAGE.partition("\n## ")[0], re.M)) - {"type"}
    assert defined == set(TYPES)


def test_a_member_too_many_one_too_few_and_another_type_are_noticed() -> None:
    assert faults("A reindexing", {"rows": 1}) == []
    assert faults("A reindexing", {"rows": 1, "more": 2}) == ["A reindexing: .more is not in the table"]
    assert faults("A reindexing", {}) == ["A reindexing: .rows is not printed"]
    assert faults("A reindexing", {"rows": True}) == ["A reindexing: rows is no number: True"]
    log = {"tenant": "t", "origin": "o", "size": 1, "old": {"origin": "o", "size": 1}}
    assert faults("An adopted log", log) == ["A checkpoint: .root is not printed"]


def test_records(told: Told, store: Path) -> None:
    with Journal.open(store, signer=Ed25519Signer(bytes(32))) as journal:
        journal.tenant().append("signed", [entries.note("x")], epoch=1)
    check("A record", told("show"))
    agree("A record", told("case", "case-7"))
    check("A field's value", told("show", "--field", "run"))
    agree("A record", told("append", "fresh", "--owner", "ada", '{"kind": "Note"}'))


def test_runs_and_effects(told: Told) -> None:
    check("A run", told("runs"))
    check("An effect", told("effects"))


def test_a_run_s_story(told: Told, store: Path) -> None:
    with Journal.open(store, signer=Ed25519Signer(bytes(32))) as journal:
        tenant = journal.tenant()
        publish(tenant)
        again = [entries.effect_started(KEY, name="ship", recovery="retry") for _ in range(2)]
        tenant.append("restless", [entries.suspended(until="2030-01-01T00:00:00Z")], epoch=1)
        tenant.append("restless", [entries.entry("Odd"), *again, entries.effect_done(KEY)], epoch=2)
        forked = {"run": "restless", "seq": 2}
        tenant.append("fork", [entries.admitted(forked_from=forked), entries.concluded("completed")], epoch=1)
        tenant.append("loop", [entries.admitted(parent="loop")], epoch=1)
    names = ("order-42", "order-43", "order-45", "order-47", "restless")
    printed = [told("run", name) for name in names]
    stories = [lines[0] for lines in printed]
    check("A run's story", stories)
    for title, name in (("An epoch", "epochs"), ("An attempt", "attempt_list"), ("A wait", "waits")):
        check(title, [each for story in stories for each in story[name]])
    check("A member of a family", [*told("run", "fork", "--tree"), *told("run", "loop", "--tree")])
    agree("A record", [record for lines in printed for record in lines[1:]])
    check("A cancel request", [stories[1]["cancellation"]])


def test_cancel_requests(told: Told) -> None:
    check(
        "A cancel answer",
        [*told("cancel", "order-42", "--actor", "ada"), *told("cancel", "order-45", "--actor", "ada")],
    )


def test_leases(told: Told) -> None:
    [taken] = told("lease", "acquire", "order-42", "--owner", "ada", "--ttl", "60")
    epoch = ("--epoch", str(taken["epoch"]))
    renewed = told("lease", "renew", "order-42", "--owner", "ada", *epoch, "--ttl", "60")
    check("A lease", [taken, *renewed, *told("lease", "show", "order-42")])
    agree("A lease", told("lease", "release", "order-42", *epoch))
    agree("A lease", told("lease", "force", "order-47", "--actor", "ada", "--reason", "gone"))


def test_the_log(told: Told) -> None:
    check("A leaf", [*told("seal", "order-44"), *told("anchor", "order-42")])
    check("An anchor batch", told("anchor", "--open"))
    check("A checkpoint", [*told("log", "head"), *told("log", "checkpoint")])
    batched = told("log", "proof", "order-47")
    assert batched[0]["leaf_kind"] == "anchor-batch"
    check("An inclusion proof", [*told("log", "proof", "order-44"), *batched])
    check("A consistency proof", told("log", "consistency", "1"))
    check("A gathered head", told(*STORE_LOG, "log", "gather"))


def test_an_import(told: Told, tmp_path: Path) -> None:
    step = {"action": "ls", "observation": "a", "response": "look", "thought": "look"}
    good, other, bad = (tmp_path / name / "r\u0301.traj" for name in ("good", "other", "bad"))
    for file, text in (
        (good, json.dumps({"trajectory": [step]})),
        (other, json.dumps({"trajectory": [step] * 2, "x": 1})),
    ):
        file.parent.mkdir()
        file.write_text(text)
    bad.parent.mkdir()
    bad.write_text("{")
    check("An import", told("import", str(good), str(other), str(bad), code=5))


def test_a_bundle(told: Told, tmp_path: Path) -> None:
    told("anchor", "--open")
    whole, selected = str(tmp_path / "whole"), str(tmp_path / "selected")
    exported = told("export", "--to", whole)
    check("An exported bundle", [*exported, *told("export", "--run", "order-45", "--to", selected)])
    check("A run of a bundle", told("bundle", "list", whole))
    agree("A record", told("bundle", "show", whole))
    check("A restored tenant", told("-D", str(tmp_path / "again"), "restore", whole, "--actor", "ada"))
    for damaged in (-1, 90):
        data = bytearray((tmp_path / "whole").read_bytes())
        data[damaged] ^= 1
        (tmp_path / "damaged").write_bytes(data)
        [verdict] = told("bundle", "verify", str(tmp_path / "damaged"), code=3)
        agree("A verdict on a bundle", [verdict])
        agree("A fault of a bundle", verdict["findings"])
    check("A verdict on a bundle", [*told("bundle", "verify", selected), verdict])


def test_a_backup_and_a_recovery(told: Told, store: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "b")
    [made], [verified] = told("backup", "--to", path), told("backup", "verify", path)
    check("A backup", [made, verified])
    check("A tenant of a backup", made["tenants"], "origin")
    with Journal.open(store) as journal:
        journal.tenant().anchor("order-42")
        publish(journal.tenant())
        journal.tenant("acme").append("a", [entries.note("n")], epoch=1)
    row = next(row for row in stored(store, tables.JOURNAL) if row.key == tables.number_key("acme", 2))
    leaf = next(row for row in stored(store, tables.LEAVES) if row.key == tables.number_key("default", 2))
    flip(store, row, 90)
    flip(store, leaf, 60)
    [recovery] = told("recover", str(store), str(tmp_path / "r"), "--actor", "ada", code=1)
    check("A recovery", [recovery])
    tenants = recovery["tenants"]
    check("A recovered tenant", tenants)
    check("A lost run", [run for tenant in tenants for run in tenant["lost_runs"]])
    check("A range", [each for tenant in tenants for each in (*tenant["lost_arrivals"], *tenant["lost_leaves"])])


def test_an_unreadable_place(told: Told, store: Path, tmp_path: Path) -> None:
    leaf = next(row for row in stored(store, tables.LEAVES))
    overwrite(store, leaf.offset // 4096 * 4096, bytes(16))
    [recovery] = told("recover", str(store), str(tmp_path / "r"), "--actor", "ada", code=1)
    check("An unreadable place", recovery["unreadable"])


def test_the_use_of_bytes(told: Told) -> None:
    [used] = told("du")
    check("The use of bytes", [used])
    check("A table's bytes", used["tables"])
    check("A tenant's bytes", used["tenants"])


def test_a_report(told: Told, call: Call, store: Path, tmp_path: Path) -> None:
    (tmp_path / "seen").write_text(call("log", "checkpoint").stdout)
    sound = told("verify", "--checkpoint", str(tmp_path / "seen"))
    lines = call("verify", "--progress=json").stderr.splitlines()
    check("Progress", [json.loads(line) for line in lines])
    engine = LmdbEngine.open(store, readonly=False, clock=system_clock)
    damage, stray = (
        (tables.JOURNAL, tables.number_key("default", 2)),
        ("outcome", b"default\0lost\0" + bytes(8)),
    )
    engine.write(lambda snapshot, moment: (Writes({damage: b"short", stray: b"order-42"}), None))
    engine.close()
    [report] = told("verify", code=3)
    check("A verify report", [report, *sound])
    check("A finding", report["findings"])


def test_an_audit(told: Told, store: Path, tmp_path: Path) -> None:
    witness = witness_signer("w.example")
    with Journal.open(store, store_origin=STORE_LOG[1]) as journal:
        tenant = journal.tenant()
        key = EffectKey("order-42", "charge again")
        last = [entries.effect_started(key, name="charge"), entries.concluded("completed")]
        tenant.append("order-42", last, epoch=1, seal=True)
        publish(tenant, witness)
        journal.store_log.gather()
    (tmp_path / "policy").write_text(f"log {log_signer(ORIGIN).key}\nwitness w {witness.key}\nquorum w\n")
    [sound] = told(*STORE_LOG, "audit", "--policy", str(tmp_path / "policy"))
    assert sound["findings"] == []
    check(AUDIT, [sound])
    check("A log in public", sound["logs"])
    check("An undecided run", sound["undecided"])


def test_health(told: Told, tmp_path: Path) -> None:
    limits = ("--max-in-doubt", "0", "--max-unwitnessed-age", "1d", "--max-abandoned", "3")
    critical = told("health", *limits, code=2)
    check("A health report", [*critical, *told("-D", str(tmp_path / "none"), "health", code=2)])
    check("A measure", critical[0]["measures"])


def test_the_store_and_its_indexes(told: Told) -> None:
    [facts] = told(*STORE_LOG, "info")
    check("A store", [facts])
    assert sorted(facts["rows"]) == sorted(tables.TABLES)
    check("A reindexing", told("reindex"))


def test_keys(told: Told, call: Call, keys: dict[str, str]) -> None:
    for args in (("--record", "worker-1"), ("--log",), ("--witness", "w.example")):
        assert call("--tenant", "default", "keys", "gen", *args, env=keys).exit_code == 0
    assert call("log", "checkpoint", "--sign", env=keys).exit_code == 0
    check("A key", told("keys", "list"))
    check("A key", told("keys", "show", ORIGIN), "signer")


def test_what_is_public(told: Told, call: Call, store: Path, tmp_path: Path) -> None:
    witness = witness_signer("w.example")
    with Journal.open(store, store_origin=STORE_LOG[1]) as journal:
        publish(journal.tenant(), witness)
        journal.store_log.gather()
        publish(journal.store_log, witness)
    policy, proof, records = tmp_path / "policy", tmp_path / "proof", tmp_path / "records"
    trusted = f"witness w {witness.key}\nquorum w\n"
    policy.write_text(f"log {log_signer(ORIGIN).key}\n{trusted}")
    of_store_log = tmp_path / "policy of the store log"
    of_store_log.write_text(f"log {log_signer(STORE_LOG[1]).key}\n{trusted}")
    check("A folder of tiles", told("log", "tiles", "--to", str(tmp_path / "tiles")))
    assert call("log", "proof", "order-45", "-o", "tlog-proof", "--to", str(proof)).exit_code == 0
    assert call("run", "order-45", "-o", "records", "--to", str(records)).exit_code == 0
    files = ("--proof", str(proof), "--records", str(records), "--policy", str(policy))
    direct = told("verify", *files)
    through = ("--store-log", "-o", "tlog-proof", "--to", str(proof))
    assert call(*STORE_LOG, "log", "proof", "order-45", *through).exit_code == 0
    check("A verified proof", [*direct, *told("verify", *files[:-1], str(of_store_log))])
    of_run = ("--run", "order-45", "--records", str(records))
    seen = ("--state", str(tmp_path / "seen"), "--policy", str(policy))
    monitored = told("log", "monitor", str(tmp_path / "tiles"), *seen, *of_run)
    check("A monitor's visit", monitored, "went_on_from", "leaf.size", "leaf.root")


def test_an_adopted_log(told: Told, tmp_path: Path) -> None:
    last = tmp_path / "last"
    last.write_bytes(signed_note(Checkpoint(ORIGIN, 9, bytes(32))))
    old = ("--old-checkpoint", str(last), "--vkey", str(log_signer(ORIGIN).key))
    check("An adopted log", told("log", "adopt", "--new-origin", "log-2", *old, "--actor", "ada"))


def test_a_log_of_logs_has_leaves_of_its_own() -> None:
    leaf = _leaf_object(Newest(3, 4, TenantHead(bytes(32), 2, bytes(32))))
    visit = {"origin": "o", "size": 4, "root": "00", "old_size": 0, "went_on_from": "p", "lost": [], "leaf": leaf}
    visit |= {"monitored": 1, "unmonitored": ["00"]}
    check("A monitor's visit", [visit], "leaf.seq", "leaf.head")


def test_witnesses(told: Told, call: Call, keys: dict[str, str]) -> None:
    url, witness = "http://127.0.0.1:9", witness_signer("w.example")
    assert call("--tenant", "default", "keys", "gen", "--log", env=keys).exit_code == 0
    assert call("--tenant", "default", "log", "publish", "--no-policy", env=keys).exit_code == 0
    assert call("witness", "add", "w", str(witness.key), url, env=keys).exit_code == 0
    check("A witness of our logs", told("witness", "list"))
    memory = Memory(Path(keys["SEALBOOK_KEYS"]), ORIGIN)
    charge = Charge(url, "AHEAD", "it remembers size 9", "evidence-1")
    with memory.held():
        memory.keep({url: KnownWitness(2, 2, 1_795_939_200, 1, 1_795_939_201, "no answer")})
        memory.stop([charge], at=1_795_939_202)
    [status] = told("--tenant", "default", "witness", "status", code=3)
    check("A log and its witnesses", [status])
    check("A charge", status["stopped"]["charges"])
    check("A witness's standing", status["witnesses"])
    agree("A log and its witnesses", told("--tenant", "acme", "witness", "status"))


def test_evidence(told: Told, tmp_path: Path) -> None:
    log, fork = GrowingLog(), GrowingLog(forked=True)
    ring, folder = Keyring(tmp_path / "ring"), tmp_path / "state"
    ring.generate(Purpose.WITNESS, NAME, created=0)
    with open_state(folder, Cosigner.of_ring(ring, NAME)) as state:
        state.decide([log.submission(0, 9)])
        state.decide([fork.submission(9, 9)])
    [evidence] = told("witness", "evidence", "--state", str(folder))
    check("A piece of evidence", [evidence])
