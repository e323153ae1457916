"""`keys`: what it prints, what it refuses, and that no private half comes out."""

from __future__ import annotations

import base64
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from sealbook.journal import Journal
from sealbook.journal.keys import pkcs8
from sealbook.journal.keys.public_halves import Purpose
from sealbook.journal.keys.ring import Keyring
from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.keys import Algorithm, NoteSigner, VerifierKey
from sealbook.merkle.note import Note, sign_text

Call = Callable[..., Result]
BASE = "example.com/journal"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
def keys(call: Call, folder: Path) -> Call:
    """Run `keys` on a ring of its own."""

    def run(verb: str, *args: str, before: tuple[str, ...] = (), **more: Any) -> Result:
        return call(*before, "keys", verb, "--keys", str(folder), *args, **more)

    return run


def listed(keys: Call) -> list[dict[str, Any]]:
    result = keys("list", "-o", "json")
    assert result.exit_code == 0
    return [json.loads(line) for line in result.stdout.splitlines()]


def names(folder: Path) -> list[str]:
    found = Keyring(folder).keys()
    return [key.name for key in found]


def line(result: Result, code: int) -> str:
    """The one line that a failure has."""
    assert result.exit_code == code, result.output
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    return result.stderr


def test_a_record_signers_key_is_printed_as_hex(keys: Call, folder: Path) -> None:
    result = keys("gen", "--record", "worker-1")
    assert result.exit_code == 0
    (key,) = Keyring(folder).keys()
    assert result.stdout == f"{key.public_key.hex()}\n"
    (item,) = listed(keys)
    assert item["purpose"] == "record"
    assert key.signer_id is not None
    assert item["signer"] == key.signer_id.hex()
    assert item["public"] == key.public_key.hex()
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", item["created"])


def test_a_log_has_one_key_per_tenant_of_the_store(keys: Call) -> None:
    result = keys("gen", "--log", "--origin", BASE)
    assert result.exit_code == 0
    verifiers = [VerifierKey.parse(text) for text in result.stdout.splitlines()]
    assert {key.name for key in verifiers} == {BASE, f"{BASE}/acme"}
    assert len({key.public_key for key in verifiers}) == 2
    again = keys("gen", "--log", "--origin", BASE)
    assert (again.exit_code, again.stdout) == (0, result.stdout), "a file that it is sent to is as before"
    assert again.stderr.count("keeps its key") == 2
    assert len(listed(keys)) == 2


def test_the_origin_and_the_tenant_before_the_verb_count(keys: Call) -> None:
    result = keys("gen", "--log", before=("--origin", BASE, "--tenant", "b"))
    assert [VerifierKey.parse(text).name for text in result.stdout.splitlines()] == [f"{BASE}/b"]
    assert listed(keys)[0]["tenant"] == "b"


def test_the_key_of_a_log_that_went_on_under_another_origin_is_named_after_that(
    keys: Call, call: Call, store: Path
) -> None:
    signer = NoteSigner.from_seed(BASE, Algorithm.ED25519, b"\1" * 32)
    checkpoint = Checkpoint(BASE, 9, bytes(32))
    note = Note(checkpoint.text(), (sign_text(checkpoint.text(), signer),)).encode()
    with Journal.open(store, origin=BASE) as journal:
        journal.tenant().adopt_log("example.com/journal-2", note, actor="ada")
    result = keys("gen", "--log", before=("--origin", BASE))
    made = [VerifierKey.parse(text).name for text in result.stdout.splitlines()]
    assert made == [f"{BASE}/acme", "example.com/journal-2"]
    again = keys("gen", "--log", "--origin", BASE, before=("--tenant", "default"))
    assert "example.com/journal-2 keeps its key" in again.stderr


def test_an_exact_origin_is_of_no_tenant(keys: Call) -> None:
    result = keys("gen", "--log", "--origin", "example.com/heads", "--exact")
    assert VerifierKey.parse(result.stdout.strip()).name == "example.com/heads"
    assert listed(keys)[0]["tenant"] is None


def test_an_exact_origin_whose_key_is_a_tenants_is_refused_with_what_to_do(keys: Call, folder: Path) -> None:
    assert keys("gen", "--log", "--origin", "example.com/heads", before=("--tenant", "default")).exit_code == 0
    told = line(keys("gen", "--log", "--origin", "example.com/heads", "--exact"), 5)
    assert "made without --exact" in told
    assert "tenant default" in told
    (where,) = folder.glob("example_com_heads-*")
    assert str(where) in told


def test_an_origin_that_two_tenants_would_share_is_refused(keys: Call) -> None:
    assert keys("gen", "--log", "--origin", "example.com", before=("--tenant", "journal")).exit_code == 0
    result = keys("gen", "--log", "--origin", BASE, before=("--tenant", "default"))
    assert "tenant journal and tenant default would share it" in line(result, 5)


def test_a_witness_has_a_key_of_each_algorithm(keys: Call) -> None:
    result = keys("gen", "--witness", "w.example", "--algorithm", "both")
    assert [VerifierKey.parse(text).algorithm for text in result.stdout.splitlines()] == [4, 6]
    table = keys("list").stdout.splitlines()
    assert table[0].split() == ["NAME", "PURPOSE", "ALGORITHM", "STATE", "CREATED", "ID"]
    assert [row.split()[:4] for row in table[1:]] == [
        ["w.example", "witness", "ed25519", "active"],
        ["w.example", "witness", "ml-dsa-44", "active"],
    ]


def test_an_empty_ring_lists_nothing(keys: Call, folder: Path) -> None:
    assert (keys("list").output, keys("list", "-o", "json").output) == ("", "")
    assert not folder.exists()


@pytest.mark.parametrize("args", [[], ["--log", "--record", "a"], ["--record", "a", "--witness", "b"]])
def test_exactly_one_purpose_is_needed(keys: Call, args: list[str]) -> None:
    word = "two" if args else "none"
    told = line(keys("gen", *args), 2)
    assert "exactly one of --record NAME, --log and --witness NAME" in told
    assert f"is needed, and {word} {'were' if args else 'was'} given" in told


def test_a_name_that_has_a_key_is_refused_another(keys: Call) -> None:
    keys("gen", "--record", "worker-1")
    assert "rotate it" in line(keys("gen", "--record", "worker-1"), 5)
    assert "a name serves one purpose" in line(keys("gen", "--witness", "worker-1"), 5)
    assert "a space or a plus" in line(keys("gen", "--record", "two words"), 2)
    assert len(listed(keys)) == 1


def test_a_key_that_is_not_there_is_not_found(keys: Call) -> None:
    for args in (("show", "nobody"), ("rotate", "nobody"), ("rotate", "nobody", "--finish"), ("export", "nobody")):
        assert "no key 'nobody': `sealbook keys list` lists what there is" in line(keys(*args), 4)


def test_show_says_what_a_logs_key_has_signed(keys: Call, folder: Path) -> None:
    keys("gen", "--log", "--origin", BASE, before=("--tenant", "default"))
    ring = Keyring(folder)
    ring.sign_checkpoint(Checkpoint(BASE, 7, bytes(32)), consistent=lambda published: False)
    text = keys("show", BASE).stdout
    assert f"signed up to  size 7, root {'00' * 32}\n" in text
    assert f"public        {ring.keys()[0].public_text}\n" in text
    assert "generation    1\n" in text
    assert "signed        yes\n" in text
    item = json.loads(keys("show", ring.keys()[0].id, "-o", "json").stdout)
    assert item["published"] == {"size": 7, "root": "00" * 32}
    assert item["signed"] is True


def test_a_rotation_prints_the_new_key_and_finish_retires_the_old_one(keys: Call) -> None:
    old = keys("gen", "--log", "--origin", BASE, before=("--tenant", "default")).stdout
    new = keys("rotate", BASE).stdout
    assert keys("export", BASE).stdout == old + new
    assert [item["signs"] for item in listed(keys)] == [True, True]
    assert "active until --finish" in keys("list").stdout
    assert "being rotated already" in line(keys("rotate", BASE), 5)
    assert "is retired" in keys("rotate", BASE, "--finish").stderr
    assert keys("export", BASE).stdout == new
    assert [(item["state"], item["signs"]) for item in listed(keys)] == [("retired", False), ("active", True)]
    assert "has no key to retire" in keys("rotate", BASE, "--finish").stderr


def test_a_private_half_goes_into_a_new_file_alone(keys: Call, tmp_path: Path) -> None:
    keys("gen", "--record", "worker-1")
    assert "never printed" in line(keys("export", "worker-1", "--private"), 2)
    for path in ("/dev/stdout", "/dev/tty", str(tmp_path)):
        assert "something stands there already" in line(keys("export", "worker-1", "--private", "--to", path), 5)
    result = keys("export", "worker-1", "--private", "--to", str(tmp_path / "out.pem"))
    assert (result.exit_code, result.stdout) == (0, "")
    assert stat.S_IMODE((tmp_path / "out.pem").stat().st_mode) == 0o600
    assert (tmp_path / "out.pem").read_bytes().startswith(b"-----BEGIN PRIVATE KEY-----\n")


def test_of_several_keys_one_is_exported_by_its_id(keys: Call, tmp_path: Path) -> None:
    keys("gen", "--witness", "w", "--algorithm", "both")
    ids = [item["id"] for item in listed(keys)]
    assert ", ".join(ids) in line(keys("export", "w", "--private", "--to", str(tmp_path / "w.pem")), 5)
    assert keys("export", ids[1], "--private", "--to", str(tmp_path / "w.pem")).exit_code == 0
    assert keys("export", "w", "--to", str(tmp_path / "w.pub")).exit_code == 0
    assert len((tmp_path / "w.pub").read_text().splitlines()) == 2


def test_a_logs_key_is_imported_with_what_it_has_signed(keys: Call, call: Call, folder: Path, tmp_path: Path) -> None:
    made = keys("gen", "--log", "--origin", BASE, before=("--tenant", "acme")).stdout
    origin = f"{BASE}/acme"
    Keyring(folder).sign_checkpoint(Checkpoint(origin, 7, bytes(32)), consistent=lambda published: False)
    pem = str(tmp_path / "log.pem")
    keys("export", origin, "--private", "--to", pem)
    other = ("--keys", str(tmp_path / "other"), "--log", "--origin", BASE)
    result = call("--tenant", "acme", "keys", "import", *other, pem)
    assert (result.exit_code, result.stdout) == (0, made)
    (key,) = Keyring(tmp_path / "other").keys()
    assert key.tenant == "acme"
    assert Keyring(tmp_path / "other").published(key) == Checkpoint(origin, 7, bytes(32))
    (tmp_path / "log.pem.published").unlink()
    third = ("--keys", str(tmp_path / "third"), "--log", "--origin", BASE)
    assert "did not come along" in line(call("--tenant", "acme", "keys", "import", *third, pem), 5)
    assert call("--tenant", "acme", "keys", "import", *third, "--never-signed", pem).exit_code == 0


def test_a_key_that_stands_in_the_ring_is_not_imported(keys: Call, tmp_path: Path) -> None:
    keys("gen", "--record", "worker-1")
    keys("export", "worker-1", "--private", "--to", str(tmp_path / "out.pem"))
    result = keys("import", "--witness", "w", str(tmp_path / "out.pem"))
    assert "stands in the ring already, as the record key worker-1+" in line(result, 5)


def test_a_file_that_is_no_key_is_refused(keys: Call, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("nothing")
    assert "no PKCS#8 key in PEM" in line(keys("import", "--record", "w", str(tmp_path / "x")), 5)
    assert "No such file" in line(keys("import", "--record", "w", str(tmp_path / "missing")), 6)


def test_a_passphrase_comes_from_a_file(keys: Call, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "pass").write_text("correct horse\n")
    (tmp_path / "wrong").write_text("wrong\n")
    assert keys("gen", "--witness", "w", "--passphrase-file", str(tmp_path / "pass")).exit_code == 0
    assert Keyring(folder).witness_signers("w", passphrase=b"correct horse")
    assert "nobody can be asked: name a --passphrase-file" in line(keys("rotate", "w"), 5)
    assert "does not open" in line(keys("rotate", "w", "--passphrase-file", str(tmp_path / "wrong")), 5)
    assert keys("rotate", "w", env={"SEALBOOK_PASSPHRASE_FILE": str(tmp_path / "pass")}).exit_code == 0
    assert len(Keyring(folder).witness_signers("w", passphrase=b"correct horse")) == 2


@pytest.mark.parametrize("text", ["", "\n", "two\nlines\n"])
def test_a_passphrase_file_holds_one_line(keys: Call, tmp_path: Path, text: str) -> None:
    (tmp_path / "pass").write_text(text)
    result = keys("gen", "--record", "a", "--passphrase-file", str(tmp_path / "pass"))
    assert "must hold one line" in line(result, 2)


def test_a_person_is_asked_for_a_new_passphrase_twice_and_sees_none_of_it(store: Path, folder: Path) -> None:
    leader, follower = os.openpty()
    command = [sys.executable, "-m", "sealbook.cli", "keys", "gen", "--keys", str(folder), "--record", "a", "--protect"]
    process = subprocess.Popen(
        command,
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        cwd=store.parent,
    )
    os.close(follower)
    assert process.stderr is not None
    said = b""
    for _ in range(2):
        asked = b""
        while not asked.endswith(b": "):
            character = process.stderr.read(1)
            assert character, said + asked
            asked += character
        said += asked
        os.write(leader, b"hidden words\n")
    out, rest = process.communicate()
    os.close(leader)
    assert process.returncode == 0, rest
    assert b"passphrase of the new key" in said
    assert b"hidden" not in said + out + rest
    assert Keyring(folder).record_signer("a", passphrase=b"hidden words").public_key.hex() == out.decode().strip()


def test_the_ring_is_where_the_environment_says_or_in_the_users_configuration(call: Call, tmp_path: Path) -> None:
    made = call("keys", "gen", "--record", "a", env={"SEALBOOK_KEYS": str(tmp_path / "k")})
    assert made.exit_code == 0
    assert names(tmp_path / "k") == ["a"]
    call("keys", "gen", "--record", "b", env={"XDG_CONFIG_HOME": str(tmp_path / "c")})
    assert names(tmp_path / "c" / "sealbook" / "keys") == ["b"]
    call("keys", "gen", "--record", "c", env={"HOME": str(tmp_path / "h"), "XDG_CONFIG_HOME": ""})
    assert names(tmp_path / "h" / ".config" / "sealbook" / "keys") == ["c"]


def test_a_ring_inside_the_store_is_refused(call: Call, store: Path) -> None:
    assert "lies inside the store" in line(call("keys", "gen", "--record", "a", "--keys", str(store / "keys")), 5)
    assert not (store / "keys").exists()


def test_damage_to_what_a_key_has_signed_is_an_integrity_failure(keys: Call, folder: Path) -> None:
    keys("gen", "--log", "--origin", BASE, before=("--tenant", "default"))
    Keyring(folder).sign_checkpoint(Checkpoint(BASE, 7, bytes(32)), consistent=lambda published: False)
    (path,) = folder.rglob("*.published")
    path.write_bytes(path.read_bytes().replace(b"\n7\n", b"\n6\n"))
    assert "is damaged" in line(keys("show", BASE), 3)


def test_no_private_half_is_ever_printed(keys: Call, call: Call, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "pass").write_text("correct horse\n")
    pass_file = ("--passphrase-file", str(tmp_path / "pass"))
    exports = [tmp_path / "w.pem", tmp_path / "log.pem"]
    said = [
        keys("gen", "--record", "worker-1"),
        keys("gen", "--log", "--origin", BASE),
        keys("gen", "--witness", "w", "--algorithm", "both", *pass_file),
        keys("gen", "--record", "worker-1"),
        keys("rotate", BASE),
        keys("rotate", "w"),
        keys("rotate", "w", *pass_file),
        keys("rotate", "w", "--finish"),
        *(keys("show", name, *form) for name in ("worker-1", BASE, "w") for form in ((), ("-o", "json"))),
        keys("list"),
        keys("list", "-o", "json"),
        keys("export", "w"),
        keys("export", "w", "--to", str(tmp_path / "public")),
        keys("export", "w", "--private", "--to", str(exports[0])),
        keys("export", f"{BASE}/acme", "--private", "--to", str(exports[1])),
        keys("import", "--record", "again", str(exports[1])),
        keys("import", "--log", "--origin", "other.example", str(exports[1])),
        call("keys", "import", "--keys", str(tmp_path / "2"), "--record", "again", str(exports[1])),
    ]
    private = [*folder.rglob("*.pem"), *(tmp_path / "2").rglob("*.pem")]
    assert len(private) == 1 + 3 + 4 + 1
    seeds = {pkcs8.decode(path.read_bytes(), b"correct horse", "k")[0] for path in private}
    assert len(seeds) == 8
    texts = [f"{result.stdout}{result.stderr}".encode() for result in said]
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path not in {*private, *exports}]
    assert len(files) > 20
    for text in (*texts, *(path.read_bytes() for path in files)):
        for seed in seeds:
            # base64 shifts with what stands before, so each of its three forms is looked for
            shifted = [base64.b64encode(bytes(skip) + seed)[4 if skip else 0 : 40] for skip in range(3)]
            for form in (seed, seed.hex().encode(), seed.hex().upper().encode(), *shifted):
                assert form not in text
    assert b"correct horse" not in b"".join(texts)


def test_every_verb_shows_an_example_that_it_takes(call: Call) -> None:
    for verb in ("gen", "list", "show", "rotate", "export", "import"):
        assert f"sealbook keys {verb}" in call("keys", verb, "--help").stdout


def test_the_purposes_of_keys_are_those_of_the_command() -> None:
    assert [str(purpose) for purpose in Purpose] == ["record", "log", "witness"]
