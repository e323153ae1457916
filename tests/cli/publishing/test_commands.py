"""`log publish`, `log checkpoint --sign` and `witness add|list|submit|status|resolve`, with witnesses over loopback."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog
from click.testing import CliRunner, Result
from witness_world import served

from sealbook.cli.main import cli
from sealbook.cli.publishing import memory
from sealbook.cli.publishing.memory import Memory
from sealbook.cli.publishing.signing import LogSigner
from sealbook.cli.witnessing.cosigner import Cosigner
from sealbook.cli.witnessing.loglist import LogFile
from sealbook.cli.witnessing.state import StateStore
from sealbook.journal import Journal, entries
from sealbook.journal.engine.clock import system_clock
from sealbook.journal.engine.memory import MemoryEngine
from sealbook.journal.keys.ring import Keyring
from sealbook.merkle.entry import LeafEntry, adopted_leaf
from sealbook.merkle.keys import Algorithm, NoteSigner, VerifierKey
from sealbook.merkle.note import Note, open_checkpoint
from sealbook.merkle.policy import Policy

BASE = "example.com/log"
TENANTS = ("default", "acme")
ORIGINS = (BASE, f"{BASE}/acme")


@dataclass
class Place:
    """A store with two tenants' logs, their keys, and the program run on them."""

    folder: Path

    @property
    def store(self) -> Path:
        return self.folder / "s"

    @property
    def keys(self) -> Path:
        return self.folder / "keys"

    @property
    def environment(self) -> dict[str, str]:
        return {"SEALBOOK_KEYS": str(self.keys), "SEALBOOK_ORIGIN": BASE, "SEALBOOK_DIR": str(self.store)}

    def run(self, *args: str) -> Result:
        result = CliRunner().invoke(cli, args, env=self.environment, prog_name="sealbook")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def ok(self, *args: str) -> str:
        result = self.run(*args)
        assert result.exit_code == 0, result.output
        return result.stdout

    def grow(self, leaves: int = 1, tenant: str = "default") -> None:
        with Journal.open(self.store, create=True, origin=BASE) as journal:
            log = journal.tenant(tenant)
            for number in range(leaves):
                name = f"run-{log.checkpoint().size}-{number}"
                log.append(name, [entries.admitted(), entries.concluded("ok")], epoch=1, seal=True)

    def status(self, tenant: str = "default", code: int = 0) -> dict[str, Any]:
        result = self.run("--tenant", tenant, "witness", "status", "-o", "json")
        assert result.exit_code == code, result.output
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    def log_keys(self) -> list[VerifierKey]:
        items = [json.loads(line) for line in self.ok("keys", "list", "-o", "json").splitlines()]
        return [VerifierKey.parse(item["public"]) for item in items]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(tmp_path)
    for tenant in TENANTS:
        found.grow(2, tenant)
    found.ok("keys", "gen", "--log")
    return found


def needed() -> None:
    for name, extra in (("httpx2", "witness"), ("starlette", "serve"), ("hypercorn", "serve")):
        pytest.importorskip(name, reason=f"the extra `{extra}` is not installed")


@dataclass
class Running:
    """A witness of ours that is served."""

    name: str
    signer: NoteSigner
    url: str

    @property
    def key(self) -> str:
        return str(self.signer.key)


Start = Callable[..., Running]


@pytest.fixture
def start(place: Place, tmp_path: Path) -> Iterator[Start]:
    """Serve a witness for both logs."""
    needed()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # the witnesses' events are not the program's
    with ExitStack() as stack:
        stack.callback(structlog.reset_defaults)

        def run(name: str) -> Running:
            signer = NoteSigner.from_seed(name, Algorithm.ED25519_COSIGNATURE, name.encode().ljust(32, b"\0"))
            logs = tmp_path / f"{name}.logs"
            listed = [f"vkey {key}\nqpd 1000000\ncontact nobody\n" for key in sorted(place.log_keys(), key=str)]
            logs.write_text("logs/v0\n" + "".join(listed))
            state = StateStore(MemoryEngine(clock=system_clock), Cosigner(name, (signer,)))
            port = stack.enter_context(served(state, LogFile(logs, (signer,)), system_clock))
            return Running(name, signer, f"http://127.0.0.1:{port}")

        yield run


DEAD = NoteSigner.from_seed("dead", Algorithm.ED25519_COSIGNATURE, b"\x55" * 32)


def add_dead(place: Place, *more: str) -> None:
    place.ok("witness", "add", "dead", str(DEAD.key), "http://127.0.0.1:1", *more)  # where nobody listens


# --- signing --------------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_signed_and_kept(place: Place) -> None:
    note = place.ok("--tenant", "acme", "log", "checkpoint", "--sign")
    opened = open_checkpoint(note.encode(), origin=ORIGINS[1], log_keys=place.log_keys())
    assert opened.checkpoint.size == 2
    assert place.ok("--tenant", "acme", "log", "checkpoint", "--sign") == note
    found = place.status("acme")
    assert (found["signed"], found["published"]) == (2, None)
    assert json.loads(place.ok("--tenant", "acme", "log", "checkpoint", "--sign", "-o", "json"))["text"] == note


def test_without_sign_nothing_is_signed(place: Place) -> None:
    assert place.ok("log", "checkpoint").count("\n") == 3
    assert place.status()["signed"] is None


def test_a_log_without_a_key_is_not_signed(place: Place) -> None:
    result = place.run("--origin", "elsewhere.example", "log", "checkpoint", "--sign")
    assert (result.exit_code, result.stdout) == (4, "")


def test_yesterday_s_store_is_refused_and_the_size_named(place: Place) -> None:
    place.ok("--tenant", "default", "log", "publish", "--once")
    yesterday = shutil.copytree(place.store, place.folder / "copy")
    place.grow(2)
    place.ok("--tenant", "default", "log", "publish", "--once")
    shutil.rmtree(place.store)
    yesterday.rename(place.store)
    for args in (("log", "publish"), ("log", "checkpoint", "--sign")):
        result = place.run("--tenant", "default", *args)
        assert result.exit_code == 5
        assert "size 4 had been signed" in result.stderr
        assert result.stderr.count("\n") == 1
    place.grow(9)
    result = place.run("--tenant", "default", "log", "publish")
    assert (result.exit_code, "size 4 had been signed" in result.stderr) == (5, True)


def test_a_log_goes_on_from_what_its_keys_have_promised_last(place: Place) -> None:
    """The size was promised and its signature never came: no note of it exists anywhere."""
    place.ok("--tenant", "default", "log", "publish", "--once")
    yesterday = shutil.copytree(place.store, place.folder / "copy")
    place.grow(2)
    with Journal.open(place.store, origin=BASE) as journal:
        promised = journal.tenant().checkpoint()
    LogSigner(Keyring(place.keys), BASE).sign(promised, lambda published: True)
    published = place.folder / "last.txt"
    with Journal.open(place.store, origin=BASE) as journal:
        published.write_bytes(journal.tenant().published_checkpoint() or b"")
    shutil.rmtree(place.store)
    yesterday.rename(place.store)
    adopt = ("--tenant", "default", "log", "adopt", "--new-origin", "elsewhere", "--actor", "ada")
    refused = place.run(*adopt, "--old-checkpoint", str(published))
    assert refused.exit_code == 5 and "has signed size 4, which is taken where none is named" in refused.stderr
    assert place.ok(*adopt) == f"elsewhere: 3 leaves, goes on from {BASE} at size 4\n"
    with Journal.open(place.store, origin=BASE) as journal:
        first = LeafEntry.decode(journal.tenant().leaf_entries(0, 1)[0])
    assert first == adopted_leaf(BASE, 4, promised.root)
    place.ok("--tenant", "default", "keys", "gen", "--log")
    assert "elsewhere: size 3 is published" in place.ok("--tenant", "default", "log", "publish")
    never = place.run(*adopt[:2], "log", "adopt", "--new-origin", "third", "--actor", "ada", "--keys", "none")
    assert never.exit_code == 2 and "no key in none has signed a checkpoint of elsewhere" in never.stderr


def test_adoption_and_publishing_are_not_at_work_on_one_log_at_a_time(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.ok("--tenant", "default", "log", "publish", "--once")
    yesterday = shutil.copytree(place.store, place.folder / "copy")
    place.grow()
    place.ok("--tenant", "default", "log", "publish", "--once")
    adopt = ("-D", str(yesterday), "log", "adopt", "--new-origin", "elsewhere", "--actor", "ada")
    with Memory(place.keys, BASE).held(), monkeypatch.context() as patched:
        patched.setattr(memory, "Memory", partial(Memory, lock_timeout=0))
        result = place.run(*adopt)
        assert (result.exit_code, result.stdout) == (5, "")
        assert "another process" in result.stderr
    assert place.ok(*adopt).startswith("elsewhere: ")


def test_the_first_signature_under_a_name_says_which_others_the_log_has_keys_for(place: Place) -> None:
    place.ok("--origin", "other.example", "keys", "gen", "--log")
    result = place.run("--tenant", "default", "log", "checkpoint", "--sign")
    remark = f"sealbook: {BASE}: its first signature; the keys know tenant default as other.example too\n"
    assert (result.exit_code, result.stderr) == (0, remark)
    assert place.run("--tenant", "default", "log", "checkpoint", "--sign").stderr == ""
    refused = place.run("--origin", "other.example", "--tenant", "default", "log", "publish")
    assert (refused.exit_code, f"is not {BASE}, under which size 2 was signed" in refused.stderr) == (5, True)
    published = place.run("--tenant", "acme", "log", "publish")
    assert (
        published.stderr
        == f"sealbook: {BASE}/acme: its first signature; the keys know tenant acme as other.example/acme too\n"
    )
    status = place.run("--origin", "other.example", "--tenant", "default", "witness", "status")
    assert status.stderr == f"sealbook: other.example: size 2 was signed as {BASE}: --origin before the verb names it\n"


NOBODY_S = ("--tenant", "nobody")


@pytest.mark.parametrize(
    "args",
    [
        ("log", "head"),
        ("log", "checkpoint"),
        ("log", "checkpoint", "--sign"),
        ("log", "consistency", "0"),
        ("log", "publish"),
        ("log", "tiles", "--to", "tiles"),
        ("log", "serve", "--listen", "127.0.0.1:0"),
        ("log", "adopt", "--new-origin", "elsewhere", "--actor", "ada"),
        ("witness", "status"),
        ("anchor", "--open"),
    ],
    ids=" ".join,
)
def test_the_log_of_a_tenant_that_is_not_there_is_not_found(place: Place, args: tuple[str, ...]) -> None:
    place.ok(*NOBODY_S, "keys", "gen", "--log")
    result = place.run(*NOBODY_S, *args)
    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr == "sealbook: no tenant 'nobody': `sealbook info` lists what there is\n"
    with Journal.open(place.store, readonly=True) as journal:
        assert journal.tenants() == ["acme", "default"]


@pytest.mark.parametrize("args", [("log", "publish"), ("witness", "status")], ids=" ".join)
def test_a_store_without_a_record_says_that_it_has_no_log(tmp_path: Path, args: tuple[str, ...]) -> None:
    place = Place(tmp_path)
    place.ok("init")
    result = place.run(*args)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "sealbook: the store has no record yet, and so no log\n"


def test_the_policy_and_the_keys_of_a_tenant_to_come_can_be_handed_out(place: Place) -> None:
    place.ok(*NOBODY_S, "keys", "gen", "--log")
    add_dead(place)
    assert f"log {BASE}/nobody+" in place.ok(*NOBODY_S, "witness", "list", "-o", "tlog-policy")


# --- publishing -----------------------------------------------------------------------------------------------------


def test_without_a_policy_it_says_that_the_log_s_signature_stands_alone(place: Place) -> None:
    needed()
    out = place.ok("log", "publish")
    assert out.count("is published, by the log's own signature alone\n") == 2
    result = place.run("log", "publish")
    assert (result.exit_code, result.stdout, result.stderr.count("nothing to do")) == (0, "", 2)


def test_two_of_three_with_one_that_is_down(place: Place, start: Start) -> None:
    w1, w2 = start("w1"), start("w2")
    for each in (w1, w2):
        place.ok("witness", "add", each.name, each.key, each.url)
    add_dead(place, "--quorum", "2")
    result = place.run("log", "publish", "--once")
    assert result.exit_code == 0
    assert set(result.stdout.splitlines()) == {
        f"{origin}: size 2 is published, cosigned by w1, w2" for origin in ORIGINS
    }
    assert result.stderr.count("dead: ConnectError") == 2
    place.grow(3)
    assert f"{BASE}: size 5 is published, cosigned by w1, w2" in place.ok("log", "publish", "--once")
    found = place.status()
    assert (found["size"], found["signed"], found["published"], found["quorum_met"]) == (5, 5, 5, True)
    dead, one = found["witnesses"][2], found["witnesses"][0]
    assert (one["cosigned"], one["failures"], one["failure"]) == (5, 0, None)
    assert (dead["cosigned"], dead["failures"]) == (0, 3)
    policy = Policy.parse(place.ok("witness", "list", "-o", "tlog-policy").encode())
    with Journal.open(place.store, readonly=True, origin=BASE) as journal:
        note = journal.tenant().published_checkpoint()
    assert note is not None
    assert policy.open(note, origin=BASE).checkpoint.size == 5


def test_without_the_quorum_nothing_is_published_and_the_code_is_5(place: Place, start: Start) -> None:
    w1 = start("w1")
    place.ok("witness", "add", w1.name, w1.key, w1.url)
    place.ok("log", "publish")
    add_dead(place)
    place.grow()
    result = place.run("--tenant", "default", "witness", "submit")
    assert (result.exit_code, result.stdout) == (5, "")
    assert f"{BASE}: size 2 is signed and waits for its quorum, cosigned by w1; size 3 is not signed" in result.stderr
    assert place.status()["published"] == 2
    result = place.run("--tenant", "default", "log", "publish", "--fail-open")
    assert result.exit_code == 0
    assert f"{BASE}: size 3 is published WITHOUT ITS QUORUM (--fail-open), cosigned by w1" in result.stdout
    found = place.status()
    assert (found["published"], found["without_quorum"], found["quorum_met"]) == (3, True, False)
    assert "3 WITHOUT ITS QUORUM" in place.ok("--tenant", "default", "witness", "status")


def test_a_submit_asks_everybody_now(place: Place, start: Start) -> None:
    w1 = start("w1")
    place.ok("witness", "add", w1.name, w1.key, w1.url)
    place.ok("log", "publish")
    place.ok("log", "publish")
    assert "size 2 is published, cosigned by w1" in place.ok("witness", "submit")


def test_a_witness_that_contradicts_the_log_stops_it_until_it_is_resolved(place: Place, start: Start) -> None:
    w1 = start("w1")
    place.ok("witness", "add", w1.name, w1.key, w1.url)
    place.ok("log", "publish")
    policy = place.keys / "witnesses" / "policy"
    other = start("w1")  # the same witness, that has forgotten everything
    known = next((place.keys / "witnesses").glob("*/memory"))
    assert w1.url in known.read_text()
    for file in (policy, *(place.keys / "witnesses").glob("*/memory")):
        text = file.read_text().replace(w1.url, other.url)
        file.write_text(text if file == policy else checked(text))
    place.grow()
    result = place.run("log", "publish")
    assert result.exit_code == 3
    assert f"{BASE}: publishing is stopped: {other.url}: the witness remembers less than it cosigned" in result.stderr
    assert place.run("log", "checkpoint", "--sign").exit_code == 3
    found = place.status(code=3)
    (charge,) = found["stopped"]["charges"]
    assert charge["kind"] == "WENT_BACKWARDS"
    assert json.loads(Path(charge["evidence"]).read_text())["origin"] == BASE
    assert found["published"] == 2
    result = place.run("--tenant", "default", "witness", "status")
    assert result.exit_code == 3
    shown = [line.split() for line in result.stdout.splitlines()]
    assert [words[0] for words in shown[:4]] == ["tenant", "origin", "STOPPED", f"{other.url}:"]
    assert ["quorum", "met", "at", "size", "2"] in shown
    place.ok("witness", "resolve")
    assert place.run("witness", "resolve").exit_code == 4
    assert f"{BASE}: size 3 is published, cosigned by w1" in place.ok("--tenant", "default", "log", "publish")


def test_69_of_two_copies_that_went_on_differently_the_witness_cosigns_one(place: Place, start: Start) -> None:
    """The second is refused, and two signed checkpoints of one size are the evidence."""
    w1 = start("w1")
    place.ok("witness", "add", w1.name, w1.key, w1.url)
    place.ok("log", "publish")
    copy = Place(place.folder / "copy")
    for name in ("s", "keys"):
        shutil.copytree(place.folder / name, copy.folder / name)
    for each in (place, copy):
        each.grow()  # a run with a salt of its own
        each.ok("--tenant", "default", "log", "checkpoint", "--sign")
    assert f"{BASE}: size 3 is published, cosigned by w1" in place.ok("--tenant", "default", "log", "publish")
    assert copy.run("--tenant", "default", "log", "publish").exit_code == 3
    (charge,) = copy.status(code=3)["stopped"]["charges"]
    assert charge["kind"] == "FORKED"
    assert "remembers another root at size 3" in charge["reason"]
    evidence = json.loads(Path(charge["evidence"]).read_text())
    notes = [b64decode(evidence[name]) for name in ("held", "served")]
    one, other = (open_checkpoint(note, origin=BASE, log_keys=place.log_keys()).checkpoint for note in notes)
    assert (one.size, other.size) == (3, 3)
    assert one.root != other.root


def checked(text: str) -> str:
    """The memory's file with its check made anew."""
    from blake3 import blake3

    lines = re.sub(r"check [0-9a-f]{16}\n$", "", text)
    return f"{lines}check {blake3(lines.encode()).hexdigest(8)}\n"


def test_one_log_that_is_refused_does_not_keep_the_others(place: Place) -> None:
    needed()
    shutil.rmtree(next(place.keys.glob("example_com_log_acme-*")))
    result = place.run("log", "publish")
    assert result.exit_code == 4
    assert f"{BASE}: size 2 is published" in result.stdout
    assert f"{BASE}/acme" in result.stderr


def test_a_policy_that_was_moved_away_is_not_taken_for_none(place: Place, start: Start) -> None:
    w1 = start("w1")
    place.ok("witness", "add", w1.name, w1.key, w1.url)
    place.ok("log", "publish")
    (place.keys / "witnesses" / "policy").unlink()
    place.grow()
    result = place.run("--tenant", "default", "log", "publish")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "by the log's own signature alone" in place.ok("--tenant", "default", "log", "publish", "--no-policy")


def test_a_passphrase_opens_the_logs_keys(tmp_path: Path) -> None:
    needed()
    place = Place(tmp_path)
    place.grow()
    secret = tmp_path / "secret"
    secret.write_text("correct horse\n")
    place.ok("keys", "gen", "--log", "--protect", "--passphrase-file", str(secret))
    assert place.run("log", "publish").exit_code == 5
    assert "is published" in place.ok("log", "publish", "--passphrase-file", str(secret))


def test_what_a_witness_says_is_shown_as_text(place: Place, start: Start) -> None:
    w1 = start("w1")
    place.ok("witness", "add", w1.name, w1.key, w1.url)
    place.ok("keys", "rotate", BASE)  # the witness knows the old key alone
    place.ok("keys", "rotate", BASE, "--finish")
    refused = place.run("--tenant", "default", "log", "publish")
    assert refused.exit_code == 5
    assert f'{BASE}: w1: 403: "no known key signed the note: ' in refused.stderr
    assert '403: "no known key' in place.ok("--tenant", "default", "witness", "status")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize(
    ("args", "done"),
    [
        (("log", "publish"), "what was published stands"),
        (("log", "checkpoint", "--sign"), f"size 2 of {BASE} is signed and kept"),
        (("keys", "rotate", BASE), " stands in the ring"),
        (("keys", "gen", "--record", "worker"), " stands in the ring"),
    ],
    ids=" ".join,
)
def test_an_output_that_fails_says_what_stands_nevertheless(place: Place, args: tuple[str, ...], done: str) -> None:
    needed()
    command = [sys.executable, "-P", "-m", "sealbook.cli", "--tenant", "default", *args]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SEALBOOK_")}
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment | place.environment, check=False
        )
    assert result.returncode == 6
    assert f"{done}, but the output cannot be written: No space left on device" in result.stderr
    assert result.stderr.count("\n") == 1


# --- the daemon -----------------------------------------------------------------------------------------------------


def spawned(place: Place, *more: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SEALBOOK_")}
    command = [sys.executable, "-P", "-m", "sealbook.cli", "log", "publish", "--every", "1s", *more]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment | place.environment)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_daemon_goes_on_publishing_until_it_is_told_to_stop(
    place: Place, start: Start, number: signal.Signals
) -> None:
    w1 = start("w1")
    place.ok("witness", "add", w1.name, w1.key, w1.url)
    with spawned(place) as process:
        try:
            assert process.stdout is not None
            first = {process.stdout.readline() for _ in ORIGINS}
            assert first == {f"{origin}: size 2 is published, cosigned by w1\n" for origin in ORIGINS}
            place.grow()
            assert process.stdout.readline() == f"{BASE}: size 3 is published, cosigned by w1\n"
            process.send_signal(number)
            out, err = process.communicate(timeout=120)
            assert (process.returncode, out, err) == (0, "", "")
        finally:
            process.kill()


def test_a_daemon_that_is_killed_is_gone_on_with(place: Place, start: Start) -> None:
    w1 = start("w1")
    place.ok("witness", "add", w1.name, w1.key, w1.url)
    for _ in range(3):
        place.grow(2)
        with spawned(place) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.kill()
    place.grow()
    out = place.ok("--tenant", "default", "log", "publish")
    assert out == f"{BASE}: size 9 is published, cosigned by w1\n"
    assert place.status()["stopped"] is None


# --- the command line -----------------------------------------------------------------------------------------------


def test_the_witnesses_are_listed(place: Place) -> None:
    add_dead(place, "--optional")
    assert re.fullmatch(r"NAME +KEY +URL\ndead .*\nno witness is needed\n", place.ok("witness", "list"))
    item = json.loads(place.ok("witness", "list", "-o", "json"))
    assert (item["name"], item["key"], item["needed"]) == ("dead", str(DEAD.key), False)


@pytest.mark.parametrize(
    ("args", "code", "part"),
    [
        (("log", "publish", "--once", "--every", "3s"), 2, "exclude each other"),
        (("log", "publish", "--every", "0s"), 2, "no duration"),
        (("log", "publish", "--every", "1.5h"), 2, "no duration"),
        (("log", "publish", "--policy", "missing.txt"), 2, "missing.txt"),
        (("witness", "submit"), 4, "no policy"),
        (("witness", "list"), 4, "no policy"),
        (("witness", "status", "--policy", "missing.txt"), 2, "missing.txt"),
        (("witness", "resolve"), 4, "no stop of publishing"),
        (
            ("log", "tiles", "--to", "tiles"),
            4,
            "no published checkpoint of log 'example.com/log': `sealbook log publish`",
        ),
        (("log", "proof", "run-0-0", "-o", "tlog-proof"), 4, "`sealbook log publish` publishes one"),
        (("witness", "add", "w", "nonsense", "https://w.example"), 2, "policy"),
        (("witness", "add", "w", str(DEAD.key), "w.example"), 2, "URL"),
        (("witness", "add", "w", str(DEAD.key), "https://w.example", "--optional", "--quorum", "1"), 2, "exclude"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(place: Place, args: tuple[str, ...], code: int, part: str) -> None:
    result = place.run("--tenant", "default", *args)
    assert result.exit_code == code, result.output
    assert part in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_the_http_client_it_says_what_brings_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    assert place.ok("log", "publish").count("is published") == 2, "nobody is to be asked"
    add_dead(place)
    place.grow()
    result = place.run("log", "publish")
    assert result.exit_code == 2
    assert "httpx2 is not installed: `pip install '.[witness]'` in a checkout brings it" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_note_that_is_printed_has_the_log_s_line_alone(place: Place) -> None:
    note = Note.parse(place.ok("log", "checkpoint", "--sign").encode())
    assert [line.name for line in note.lines] == [BASE]


SECRET = "root:x:0:0:a line that is nobody's business\n"


@pytest.mark.parametrize(
    "words",
    [
        ("witness", "add", "w1", "KEY", "ftp://x"),
        ("witness", "add", "w1", "garbage", "http://x"),
        ("log", "publish", "--policy", "FILE"),
        ("log", "checkpoint", "--sign", "--passphrase-file", "MISSING"),
        ("log", "adopt", "--new-origin", "other", "--old-checkpoint", "FILE", "--policy", "FILE", "--actor", "ada"),
        ("log", "monitor", "FILE", "--state", "STATE", "--policy", "FILE"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2_and_prints_no_files_text(place: Place, words: tuple[str, ...]) -> None:
    file = place.folder / "secret"
    file.write_text(SECRET)
    key = str(NoteSigner.from_seed("w1", Algorithm.ED25519_COSIGNATURE, b"\1" * 32).key)
    names = {"FILE": file, "MISSING": place.folder / "missing", "KEY": key, "STATE": place.folder / "x.db"}
    result = place.run("--tenant", "default", *(str(names.get(word, word)) for word in words))
    assert result.exit_code == 2, result.output
    assert "nobody" not in result.output and "root:x" not in result.output
    assert not (place.folder / "x.db").exists()


def test_a_folder_of_keys_that_is_not_there_does_not_come_into_being_by_publishing(place: Place) -> None:
    nowhere = place.folder / "nokeys"
    assert place.run("log", "publish", "--keys", str(nowhere)).exit_code == 4
    assert not nowhere.exists()


def test_a_name_that_the_policy_has_is_told_as_such(place: Place) -> None:
    key, other = (str(NoteSigner.from_seed("w", Algorithm.ED25519_COSIGNATURE, bytes([n]) * 32).key) for n in (1, 2))
    place.ok("witness", "add", "w1", key, "http://w1")
    result = place.run("witness", "add", "w1", other, "http://w2")
    assert result.exit_code == 5
    assert "stands in" in result.stderr and "already" in result.stderr and "line" not in result.stderr
