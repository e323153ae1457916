"""The policy file: written by a command, edited by people, read whole."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest
from publishing_world import witness
from witness_world import GrowingLog

from sealbook.cli.publishing import policy_file
from sealbook.cli.publishing.policy_file import PolicyRefused, add_witness, addresses, for_verifiers
from sealbook.journal import InvalidInput, NotFound
from sealbook.merkle.policy import Policy

LOG = GrowingLog()
KEYS = {name: [str(key) for key in witness(name, LOG.trusted, both=True).address.keys] for name in ("w1", "w2", "w3")}


def add(path: Path, name: str, *, threshold: str | None = None, optional: bool = False, url: str = "") -> Policy:
    return add_witness(
        path, name, KEYS[name][0], url or f"https://{name}.example", threshold=threshold, optional=optional
    )


def last_lines(path: Path, count: int = 2) -> list[str]:
    return path.read_text().splitlines()[-count:]


def test_a_new_policy_needs_all_that_are_added(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "witnesses" / "policy"
    add(path, "w1")
    assert last_lines(path) == ["group witnesses all w1", "quorum witnesses"]
    add(path, "w2")
    assert last_lines(path) == ["group witnesses all w1 w2", "quorum witnesses"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (path.parent, path.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_two_of_three(tmp_path: Path) -> None:
    path = tmp_path / "policy"
    for name in ("w1", "w2"):
        add(path, name)
    found = add(path, "w3", threshold="2")
    assert last_lines(path) == ["group witnesses 2 w1 w2 w3", "quorum witnesses"]
    assert (found.groups[0].threshold, [each.name for each in found.witnesses]) == (2, ["w1", "w2", "w3"])


def test_a_file_that_others_may_read_stays_so_and_a_link_stays_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "policy", tmp_path / "link"
    path.write_text("quorum none\n")
    path.chmod(0o644)
    link.symlink_to(path)
    add(link, "w1")
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert last_lines(path) == ["group witnesses all w1", "quorum witnesses"]


def test_an_optional_witness_is_asked_and_not_needed(tmp_path: Path) -> None:
    path = tmp_path / "policy"
    assert add(path, "w1", optional=True).quorum is None
    add(path, "w2")
    found = add(path, "w3", optional=True)
    assert (found.quorum, found.groups[0].members) == ("witnesses", ("w2",))
    assert len(addresses(found)) == 3


def test_comments_and_order_stay(tmp_path: Path) -> None:
    path = tmp_path / "policy"
    path.write_text(
        f"# ours\nlog {LOG.signer.key}\n\nwitness w1 {KEYS['w1'][0]} https://w1.example\n# the rest\nquorum w1\n"
    )
    add(path, "w2", threshold="any")
    lines = path.read_text().splitlines()
    assert lines[:2] == ["# ours", f"log {LOG.signer.key}"]
    assert "# the rest" in lines
    assert lines[-2:] == ["group witnesses any w1 w2", "quorum witnesses"]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "w1.example",
        "ftp://w1.example",
        "https://",
        "https://w1.example/?q",
        "https://w1.example:99999",
        "https://w 1",
    ],
)
def test_an_address_that_cannot_be_asked_is_refused(tmp_path: Path, url: str) -> None:
    path = tmp_path / "policy"
    with pytest.raises(InvalidInput):
        add_witness(path, "w1", KEYS["w1"][0], url, threshold=None, optional=False)
    assert not path.exists()


def test_what_would_break_the_policy_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "policy"
    add(path, "w1")
    before = path.read_bytes()
    for key, threshold in ((KEYS["w1"][0], None), ("no+key", None), (str(LOG.signer.key), None), (KEYS["w2"][0], "3")):
        with pytest.raises(PolicyRefused):
            add_witness(path, "w9", key, "https://w9.example", threshold=threshold, optional=False)
    with pytest.raises(InvalidInput, match="already"):
        add_witness(path, "w1", KEYS["w2"][0], "https://w2.example", threshold=None, optional=False)
    assert path.read_bytes() == before


def test_witnesses_of_one_url_are_one_address(tmp_path: Path) -> None:
    path = tmp_path / "policy"
    for name, key in zip(("a", "b"), KEYS["w1"], strict=True):
        add_witness(path, name, key, "https://w1.example" + "/" * (name == "b"), threshold=None, optional=False)
    (address,) = addresses(policy_file.required(path))
    assert (address.url, address.names, len(address.keys)) == ("https://w1.example", ("a", "b"), 2)


def test_a_witness_without_a_url_is_not_asked() -> None:
    assert addresses(Policy.parse(f"witness w1 {KEYS['w1'][0]}\nquorum none\n".encode())) == ()


def test_verifiers_get_the_log_s_keys_and_nobody_else_s(tmp_path: Path) -> None:
    path = tmp_path / "policy"
    found = add(path, "w1")
    other = GrowingLog("other.example", seed=5).signer.key
    text = for_verifiers(Policy.parse(f"log {other}\n".encode() + found.encode(common=False)), [LOG.signer.key])
    verifiers = Policy.parse(text)
    assert [log.key for log in verifiers.logs] == [LOG.signer.key]
    assert (verifiers.witnesses, verifiers.quorum) == (found.witnesses, found.quorum)


def test_a_file_that_is_no_policy_is_refused_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "policy"
    path.write_text("quorum none\nwhat is this\n")
    with pytest.raises(PolicyRefused, match=f"^{re.escape(str(path))}: policy line 2"):
        policy_file.read(path)


def test_no_file_is_no_policy_and_a_required_one_is_not_found(tmp_path: Path) -> None:
    assert policy_file.read(tmp_path / "policy") is None
    with pytest.raises(NotFound):
        policy_file.required(tmp_path / "policy")
