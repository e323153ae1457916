"""The policy as a file that people edit: read whole, and changed line by line, so that comments stay."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

from sealbook.cli.ground.named_files import FileRefused
from sealbook.cli.ground.urls import is_base
from sealbook.journal.errors import InvalidInput, NotFound
from sealbook.journal.keys import private_files
from sealbook.merkle.errors import Malformed
from sealbook.merkle.keys import VerifierKey
from sealbook.merkle.policy import NONE, POLICY_BYTES_MAX, Policy, PolicyLog

FOLDER = "witnesses"  # in the folder of keys; a name's own folder there ends in 16 hex digits and cannot be this one
DEFAULT_GROUP = "witnesses"


class PolicyRefused(FileRefused):
    """The file holds no policy, or would hold none if it were changed so."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where one witness is asked, once, whatever the number of its keys."""

    url: str
    names: tuple[str, ...]
    keys: tuple[VerifierKey, ...]


def default_path(keys: Path) -> Path:
    """The policy that is followed when none is named."""
    return keys / FOLDER / "policy"


def read(path: Path) -> Policy | None:
    """The policy in this file; None where there is no file."""
    data = _data(path)
    return None if data is None else _parsed(path, data)


def addresses(policy: Policy) -> tuple[Address, ...]:
    """Whom to ask: one address for all witnesses that share a URL. One without a URL cannot be asked."""
    names: dict[str, list[str]] = {}
    keys: dict[str, list[VerifierKey]] = {}
    for witness in policy.witnesses:
        if witness.url is not None:
            url = witness.url.rstrip("/")
            names.setdefault(url, []).append(witness.name)
            keys.setdefault(url, []).append(witness.key)
    return tuple(Address(url, tuple(names[url]), tuple(keys[url])) for url in names)


def for_verifiers(policy: Policy, log_keys: list[VerifierKey]) -> bytes:
    """The policy that this log's verifiers follow: its keys, and our witnesses and quorum."""
    own = Policy(tuple(PolicyLog(key) for key in log_keys), policy.witnesses, policy.groups, policy.quorum)
    try:
        return own.encode()
    except ValueError:  # two keys during a rotation, or a witness without a URL
        return own.encode(common=False)


def add_witness(path: Path, name: str, key: str, url: str, *, threshold: str | None, optional: bool) -> Policy:
    """Write the witness into the file, which comes into being with it.

    Unless it is optional, it joins the group that the quorum names; `threshold` is then how many of the group must
    cosign: a number, `any` or `all`. Where the quorum names no group, the group `witnesses` is made, of which all must.
    """
    _check_url(url)
    data = _data(path)
    lines = [] if data is None else _parsed_lines(path, data)
    if any(items[:1] in (["witness"], ["group"]) and items[1] == name for _, items in lines):
        raise InvalidInput("witness", name, f"stands in {path} already: choose another name, or edit the file")
    quorum = next((items[1] for _, items in lines if items[:1] == ["quorum"]), NONE)
    made = f"witness {name} {key} {url}"
    first = next((index for index, (_, items) in enumerate(lines) if items[:1] in (["group"], ["quorum"])), len(lines))
    lines.insert(first, (made, made.split()))
    if not optional:
        lines = _joined(lines, quorum, name, threshold)
    elif not any(items[:1] == ["quorum"] for _, items in lines):
        lines.append((f"quorum {NONE}", ["quorum", NONE]))
    changed = "".join(f"{line}\n" for line, _ in lines).encode("utf-8", "surrogateescape")
    policy = _parsed(path, changed)
    if not path.parent.is_dir():
        make_folders(path.parent)
    mode = private_files.PRIVATE_MODE if data is None else stat.S_IMODE(path.stat().st_mode)
    private_files.write_file(path.resolve(), changed, mode)
    return policy


def make_folders(folder: Path) -> None:
    """The folder and those above it that are missing, each closed to others: the folder of keys may be among them."""
    if not folder.parent.is_dir():
        make_folders(folder.parent)
    private_files.make_folder(folder)


_Lines = list[tuple[str, list[str]]]


def _joined(lines: _Lines, quorum: str, name: str, threshold: str | None) -> _Lines:
    """The lines with the witness in the group that the quorum names."""
    for index, (_, items) in enumerate(lines):
        if items[:2] == ["group", quorum]:
            words = ["group", quorum, threshold or items[2], *items[3:], name]
            return [*lines[:index], (" ".join(words), words), *lines[index + 1 :]]
    members = [name] if quorum == NONE else [quorum, name]
    group = ["group", DEFAULT_GROUP, threshold or "all", *members]
    rest = [(line, items) for line, items in lines if items[:1] != ["quorum"]]
    return [*rest, (" ".join(group), group), (f"quorum {DEFAULT_GROUP}", ["quorum", DEFAULT_GROUP])]


def _parsed_lines(path: Path, data: bytes) -> _Lines:
    _parsed(path, data)
    texts = data.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n")
    return [(line, [] if line.lstrip(" \t").startswith("#") else line.split()) for line in texts]


def parse(data: bytes) -> Policy:
    """The policy that the file's bytes state; `Malformed` when they state none."""
    if not data.strip():
        raise Malformed("the file is empty: a policy has at least a quorum line, such as `quorum none`")
    return Policy.parse(data)


def _parsed(path: Path, data: bytes) -> Policy:
    try:
        return parse(data)
    except Malformed as error:
        raise PolicyRefused(str(path), 0, str(error)) from error


def _data(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(POLICY_BYTES_MAX + 1)
    except FileNotFoundError:
        return None


def required(path: Path, *, named: bool = False) -> Policy:
    """The policy in this file. Where there is no file: `PolicyRefused` if it was named, `NotFound` else."""
    policy = read(path)
    if policy is None and named:
        raise PolicyRefused(str(path), 0, "there is no such file")
    if policy is None:
        raise NotFound("policy", str(path))
    return policy


def _check_url(url: str) -> None:
    if not is_base(url):
        raise InvalidInput("URL", url, "must be http or https, the part before /add-checkpoint")
