"""Trust policies: which logs are known, and which of their checkpoints enough witnesses have cosigned (C2SP
tlog-policy).

    log <verifier key> [<url>]
    witness <name> <verifier key> [<url>]
    group <name> any|all|<k> <member>...
    quorum <name>|none

A checkpoint is valid when any one listed log signed it and the quorum holds. A witness is met when its key cosigned; a
group is met when at least k of its members are. A name is the member of one group at most and a key is listed once, so
that a quorum counts distinct keys, never signature lines.

A policy file is octets. Names and URLs beyond ASCII are compared as octets: here they are text decoded from UTF-8 with
`surrogateescape`, which gives every octet string a text of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.cosignature import check_timestamp
from sealbook.merkle.encoding import parse_decimal
from sealbook.merkle.errors import Malformed, VerificationError, shown
from sealbook.merkle.keys import COSIGNING, LOG_SIGNING, VerifierKey
from sealbook.merkle.note import Note, Signature, SignedCheckpoint, open_checkpoint

POLICY_BYTES_MAX = 1_000_000  # some 500 ML-DSA-44 keys; "at least up to 32 logs, 32 witnesses, and 32 groups"
NONE = "none"  # the quorum that needs nobody

# "the allowed octet values are 0x09 (tab), 0x0A (newline), 0x20-0x7E, and 0x80-0xFF"
_OCTETS = frozenset(b"\t\n") | frozenset(range(0x20, 0x7F)) | frozenset(range(0x80, 0x100))


@dataclass(frozen=True, slots=True)
class PolicyLog:
    """A log that is known. The name of its key is its origin."""

    key: VerifierKey
    url: str | None = None


@dataclass(frozen=True, slots=True)
class PolicyWitness:
    """A witness under the name that it has in its policy."""

    name: str
    key: VerifierKey
    url: str | None = None


@dataclass(frozen=True, slots=True)
class PolicyGroup:
    """Witnesses and groups of which `threshold` or more must be met."""

    name: str
    threshold: int
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """Known logs, known witnesses, and the quorum: the name of a witness or group, or `None` when nobody need cosign.
    Only a policy that a file could state can be made; any other is `Malformed`."""

    logs: tuple[PolicyLog, ...]
    witnesses: tuple[PolicyWitness, ...]
    groups: tuple[PolicyGroup, ...]
    quorum: str | None

    def __post_init__(self) -> None:
        rules = _Rules()
        definitions: tuple[_Definition, ...] = (*self.logs, *self.witnesses, *self.groups)
        for definition in definitions:
            rules.define(definition)
        rules.settle(NONE if self.quorum is None else self.quorum)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """The policy that a file states. Raises `Malformed`, which names the line, if it states none."""
        if len(data) > POLICY_BYTES_MAX:
            raise Malformed(f"policy: at most {POLICY_BYTES_MAX} bytes, not {len(data)}")
        # "each line is terminated by ASCII newline": a file cut off in a name may state another policy.
        if not data.endswith(b"\n"):
            raise Malformed("policy: the last line has no newline")
        rules = _Rules()
        for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), 1):
            try:
                _parse_line(line, rules)
            except Malformed as error:
                raise Malformed(f"policy line {number}: {error}") from error
        if rules.quorum is None:
            raise Malformed("policy: it has no quorum line")
        quorum = None if rules.quorum == NONE else rules.quorum
        return cls(tuple(rules.logs), tuple(rules.witnesses), tuple(rules.groups), quorum)

    def encode(self, *, common: bool = True) -> bytes:
        """The policy as a file. The common form is read alike by every reader that is known, and not every policy has
        one: some readers want signatures of all logs and not of any, some a URL for each witness. `ValueError` says
        what is in the way; without `common` such a policy is written for readers of tlog-policy alone."""
        if common:
            self._check_common()
        lines = [
            *(_joined("log", str(log.key), log.url) for log in self.logs),
            *(_joined("witness", witness.name, str(witness.key), witness.url) for witness in self.witnesses),
            *(_joined("group", group.name, _threshold_text(group), *group.members) for group in self.groups),
            _joined("quorum", NONE if self.quorum is None else self.quorum),
        ]
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")

    def satisfied(self, verified: Iterable[VerifierKey]) -> bool:
        """The quorum holds when these keys cosigned, each of them verified."""
        keys = set(verified)
        met = {witness.name for witness in self.witnesses if witness.key in keys}
        for group in self.groups:  # members are defined before the group
            if sum(member in met for member in group.members) >= group.threshold:
                met.add(group.name)
        return self.quorum is None or self.quorum in met

    def open(self, data: bytes, *, origin: str | None = None) -> SignedCheckpoint:
        """The valid checkpoint that these bytes are: of a known log (`origin`, where one is given), signed by it, and
        cosigned by the quorum. Raises `VerificationError`, which says what is missing."""
        claimed = Checkpoint.parse(Note.parse(data).text).origin
        log_keys = [log.key for log in self.logs if log.key.name == claimed]
        if not log_keys or (origin is not None and claimed != origin):
            wanted = "a log of the policy" if origin is None or claimed == origin else shown(origin)
            raise VerificationError(f"checkpoint is of {shown(claimed)}, not of {wanted}")
        cosigner_keys = [witness.key for witness in self.witnesses]
        signed = open_checkpoint(data, origin=claimed, log_keys=log_keys, cosigner_keys=cosigner_keys)
        keys = {signature.key for signature in signed.cosignatures}
        if not self.satisfied(keys):
            names = [witness.name for witness in self.witnesses if witness.key in keys]
            raise VerificationError(f"quorum {self.quorum} is not met: cosigned by {', '.join(names) or 'nobody'}")
        return signed

    def check_freshness(self, cosignatures: Iterable[Signature], *, now: int, age_seconds_max: int) -> None:
        """The quorum holds when only those cosignatures count that are sane and no older than this as of `now`."""
        signatures = list(cosignatures)
        unfresh = freshness_findings(signatures, now=now, age_seconds_max=age_seconds_max)
        if not self.satisfied(signature.key for signature in signatures if signature.key not in unfresh):
            findings = "; ".join(f"{key.id}: {finding}" for key, finding in unfresh.items())
            raise VerificationError(f"quorum {self.quorum} is not fresh: {findings or 'no cosignatures'}")

    def _check_common(self) -> None:
        if len(self.logs) != 1:
            raise ValueError(f"the common form of a policy has one log, not {len(self.logs)}")
        for witness in self.witnesses:
            if witness.url is None:
                raise ValueError(f"the common form of a policy has a URL for each witness: {witness.name} has none")


def freshness_findings(cosignatures: Iterable[Signature], *, now: int, age_seconds_max: int) -> dict[VerifierKey, str]:
    """The keys whose cosignature is too old, too far ahead or without a time as of `now`, in POSIX seconds, and why.
    Each is held against the clock by itself: timestamps of different keys say nothing about each other."""
    findings: dict[VerifierKey, str] = {}
    for signature in cosignatures:
        try:
            check_timestamp(signature.timestamp or 0, now=now, age_seconds_max=age_seconds_max)
        except VerificationError as error:
            findings[signature.key] = str(error)
    return findings


_Definition = PolicyLog | PolicyWitness | PolicyGroup


class _Rules:
    """The policy as far as it is defined. What breaks a rule is `Malformed` and changes nothing."""

    def __init__(self) -> None:
        self.logs: list[PolicyLog] = []
        self.witnesses: list[PolicyWitness] = []
        self.groups: list[PolicyGroup] = []
        self.quorum: str | None = None
        self._log_keys: set[bytes] = set()
        self._witness_keys: set[bytes] = set()
        self._names: set[str] = set()
        self._members: set[str] = set()

    def define(self, definition: _Definition) -> None:
        match definition:
            case PolicyLog():
                self._define_log(definition)
            case PolicyWitness():
                self._define_witness(definition)
            case PolicyGroup():
                self._define_group(definition)

    def settle(self, name: str) -> None:
        # "A policy file must include exactly one quorum line."
        if self.quorum is not None:
            raise Malformed("a second quorum")
        if name != NONE and name not in self._names:
            raise Malformed(f"quorum {shown(name)} is not defined before")
        self.quorum = name

    def _define_log(self, log: PolicyLog) -> None:
        if log.key.algorithm not in LOG_SIGNING:
            raise Malformed(f"{log.key.id} is no log's key: {log.key.algorithm.name}")
        # "Duplicate logs, i.e., multiple log lines with the same public key, are not allowed."
        if log.key.public_key in self._log_keys:
            raise Malformed(f"the public key of {log.key.id} is that of an earlier log")
        _check_item("key", str(log.key))
        _check_item("URL", log.url)
        self._log_keys.add(log.key.public_key)
        self.logs.append(log)

    def _define_witness(self, witness: PolicyWitness) -> None:
        if witness.key.algorithm not in COSIGNING:
            raise Malformed(f"{witness.key.id} is no witness's key: {witness.key.algorithm.name}")
        # "Duplicate witnesses, i.e., multiple witness lines with the same public key, are not allowed."
        if witness.key.public_key in self._witness_keys:
            raise Malformed(f"the public key of {witness.key.id} is that of an earlier witness")
        _check_item("key", str(witness.key))
        _check_item("URL", witness.url)
        self._define_name(witness.name)
        self._witness_keys.add(witness.key.public_key)
        self.witnesses.append(witness)

    def _define_group(self, group: PolicyGroup) -> None:
        # "it is required that 1 <= k <= n"; with "n >= 1" in it
        if not 1 <= group.threshold <= len(group.members):
            raise Malformed(f"group {shown(group.name)} needs 1 to {len(group.members)} of its members")
        if len(set(group.members)) != len(group.members):
            raise Malformed(f"group {shown(group.name)} has a member twice")
        for member in group.members:
            # "a group definition can only refer to names defined on preceding lines"
            if member not in self._names:
                raise Malformed(f"member {shown(member)} is not defined before")
            # "Each defined name can be listed as a group member at most once."
            if member in self._members:
                raise Malformed(f"member {shown(member)} is in another group already")
        self._define_name(group.name)
        self._members.update(group.members)
        self.groups.append(group)

    def _define_name(self, name: str) -> None:
        _check_item("name", name)
        # "The special name `none` is predefined"
        if name == NONE:
            raise Malformed(f"the name {NONE} is reserved")
        # "Witnesses and groups share a single namespace."
        if name in self._names:
            raise Malformed(f"the name {shown(name)} is taken")
        self._names.add(name)


def _parse_line(line: bytes, rules: _Rules) -> None:
    if not _OCTETS.issuperset(line):
        raise Malformed("a control character")
    # Of the octets that are left, bytes.split() takes space and tab as white space and no other.
    match [item.decode("utf-8", "surrogateescape") for item in line.split()]:
        case []:
            return
        case [keyword, *_] if keyword.startswith("#"):
            return
        case ["log", key, *url] if len(url) <= 1:
            rules.define(PolicyLog(VerifierKey.parse(key), *url))
        case ["witness", name, key, *url] if len(url) <= 1:
            rules.define(PolicyWitness(name, VerifierKey.parse(key), *url))
        case ["group", name, threshold, *members]:
            rules.define(PolicyGroup(name, _parse_threshold(threshold, members), tuple(members)))
        case ["quorum", name]:
            rules.settle(name)
        case _:
            raise Malformed("no log, witness, group or quorum line")


def _parse_threshold(text: str, members: list[str]) -> int:
    match text:
        case "any":
            return 1
        case "all":
            return len(members)
        case _:
            return parse_decimal("the number of members", text)


def _threshold_text(group: PolicyGroup) -> str:
    if group.threshold == len(group.members):
        return "all"
    return "any" if group.threshold == 1 else str(group.threshold)


def _joined(*items: str | None) -> str:
    return " ".join(item for item in items if item is not None)


def _check_item(what: str, item: str | None) -> None:
    """An item of a line survives being written and read."""
    if item is None:
        return
    try:
        octets = item.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise Malformed(f"{what} has no octets: {shown(item)}") from error
    if octets.split() != [octets] or not _OCTETS.issuperset(octets):
        raise Malformed(f"{what} is empty or has a space: {shown(item)}")
