"""Trust policies: what a file states, when a quorum holds, and which checkpoints are valid."""

from __future__ import annotations

from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.cosignature import cosign
from sealbook.merkle.errors import Malformed, VerificationError
from sealbook.merkle.keys import Algorithm, NoteSigner, VerifierKey
from sealbook.merkle.note import Note, open_note, sign_text
from sealbook.merkle.policy import Policy, PolicyGroup, PolicyLog, PolicyWitness, freshness_findings

ORIGIN = "example.com/log"
LOG = NoteSigner.from_seed(ORIGIN, Algorithm.ED25519, b"\x01" * 32)
NEXT_LOG = NoteSigner.from_seed(ORIGIN, Algorithm.ED25519, b"\x02" * 32)
NAMES = ("X1", "X2", "X3", "Y1", "Y2", "Y3")
SIGNERS = {
    name: NoteSigner.from_seed(f"w.example/{name}", Algorithm.ED25519_COSIGNATURE, bytes([number]) * 32)
    for number, name in enumerate(NAMES, 10)
}
KEYS = {name: signer.key for name, signer in SIGNERS.items()}
TEXT = Checkpoint(ORIGIN, 5, bytes(range(32))).text()

# The example of tlog-policy.
EXAMPLE = "\n".join(
    [
        "# logs",
        f"log {LOG.key}",
        "",
        *(f"witness {name} {KEYS[name]}" for name in ("X1", "X2", "X3")),
        "group X-witnesses 2 X1 X2 X3",
        *(f"witness {name} {KEYS[name]}" for name in ("Y1", "Y2", "Y3")),
        " \t# operated by others",
        "group Y-witnesses any Y1 Y2 Y3",
        "group X-and-Y all X-witnesses Y-witnesses",
        "quorum X-and-Y",
        "",
    ]
)


def parsed(*lines: str) -> Policy:
    return Policy.parse("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))


def witnesses(*names: str) -> list[str]:
    return [f"witness {name} {KEYS[name]}" for name in names]


def note(*lines_of: NoteSigner, text: str = TEXT, timestamp: int = 1000) -> bytes:
    lines = [
        sign_text(text, signer) if signer.key.algorithm is Algorithm.ED25519 else cosign(text, timestamp, signer)
        for signer in lines_of
    ]
    return Note(text, tuple(lines)).encode()


def test_the_example_of_the_specification_needs_two_of_x_and_one_of_y() -> None:
    policy = Policy.parse(EXAMPLE.encode())
    every_subset = chain.from_iterable(combinations(NAMES, count) for count in range(len(NAMES) + 1))
    for subset in every_subset:
        enough = sum(name[0] == "X" for name in subset) >= 2 and any(name[0] == "Y" for name in subset)
        assert policy.satisfied(KEYS[name] for name in subset) is enough


def test_a_quorum_counts_keys_and_not_signatures() -> None:
    policy = parsed(*witnesses("X1", "X2"), "group G 2 X1 X2", "quorum G")
    assert not policy.satisfied([KEYS["X1"], KEYS["X1"]])
    stranger = VerifierKey("w.example/X2", Algorithm.ED25519_COSIGNATURE, KEYS["Y1"].public_key)
    assert not policy.satisfied([KEYS["X1"], stranger])
    assert policy.satisfied([KEYS["X1"], KEYS["X2"], stranger])


def test_the_quorum_none_needs_nobody_and_a_witness_may_be_the_quorum() -> None:
    assert parsed("quorum none").satisfied([])
    policy = parsed(*witnesses("X1", "X2"), "quorum X2")
    assert not policy.satisfied([KEYS["X1"]])
    assert policy.satisfied([KEYS["X2"]])


def test_a_policy_is_read_as_it_is_written() -> None:
    policy = Policy.parse(EXAMPLE.encode())
    assert Policy.parse(policy.encode(common=False)) == policy


def test_lines_may_be_indented_and_names_may_be_any_octets() -> None:
    key = KEYS["X1"]
    kelvin = Policy.parse(f"\twitness \u212a\t {key}  https://a.example/é \n quorum\t\u212a\n".encode())
    assert kelvin.quorum == "\u212a"
    assert kelvin.witnesses[0].url == "https://a.example/é"
    opaque = Policy.parse(b"witness \xff\x80 " + str(key).encode() + b"\nquorum \xff\x80\n")
    assert Policy.parse(opaque.encode(common=False)) == opaque
    # A no-break space is a letter like any other here, in two octets.
    assert parsed(f"witness a\u00a0b {key}", "quorum a\u00a0b").quorum == "a\u00a0b"


def test_thirty_two_of_everything_are_read() -> None:
    lines = []
    for number in range(32):
        log = NoteSigner.from_seed(f"log.example/{number}", Algorithm.ED25519, bytes([number, 1]) * 16).key
        key = NoteSigner.from_seed("w.example", Algorithm.ED25519_COSIGNATURE, bytes([number, 2]) * 16).key
        lines += [f"log {log} https://log.example", f"witness w{number} {key} https://w.example"]
        lines += [f"group g{number} any w{number}" + (f" g{number - 1}" if number else "")]
    policy = parsed(*lines, "quorum g31")
    assert (len(policy.logs), len(policy.witnesses), len(policy.groups)) == (32, 32, 32)
    assert policy.satisfied([policy.witnesses[0].key])


W1, W2 = witnesses("X1", "X2")
OTHER_NAME = VerifierKey("w.example/alias", Algorithm.ED25519_COSIGNATURE, KEYS["X1"].public_key)
REFUSED = {
    "no quorum": ([W1], "no quorum line"),
    "two quorums": ([W1, "quorum X1", "quorum X1"], "line 3: a second quorum"),
    "a quorum before its definition": (["quorum X1", W1], "line 1: quorum 'X1' is not defined"),
    "a quorum of nobody": ([W1, "quorum Z"], "line 2: quorum 'Z' is not defined"),
    "a quorum of two": ([W1, W2, "quorum X1 X2"], "line 3: no log, witness"),
    "an unknown keyword": (["Log x", "quorum none"], "line 1: no log, witness"),
    "a comment at the end of a line": ([W1, "quorum X1 # one"], "line 2: no log, witness"),
    "a log without a key": (["log", "quorum none"], "line 1: no log, witness"),
    "a log with two URLs": ([f"log {LOG.key} a b", "quorum none"], "line 1: no log, witness"),
    "a log's key in hex": (["log " + LOG.key.public_key.hex() + " a", "quorum none"], "line 1: verifier key"),
    "a log with a witness's key": ([f"log {KEYS['X1']}", "quorum none"], "line 1: .* is no log's key"),
    "a witness with a log's key": ([f"witness w {LOG.key}", "quorum none"], "line 1: .* is no witness's key"),
    "a log twice": ([f"log {LOG.key}", f"log {LOG.key}", "quorum none"], "line 2: .* earlier log"),
    "a witness's key under another name": ([W1, f"witness b {OTHER_NAME}", "quorum X1"], "line 2: .* earlier witness"),
    "a name twice": ([W1, f"witness X1 {KEYS['X2']}", "quorum X1"], "line 2: the name 'X1' is taken"),
    "a group named as a witness": ([W1, "group X1 all X1", "quorum X1"], "line 2: the name 'X1' is taken"),
    "a witness named none": ([f"witness none {KEYS['X1']}", "quorum none"], "line 1: .* reserved"),
    "a group named none": ([W1, "group none all X1", "quorum none"], "line 2: .* reserved"),
    "the member none": ([W1, "group g any none X1", "quorum g"], "line 2: member 'none' is not defined"),
    "a member that comes later": (["group g any X1", W1, "quorum g"], "line 1: member 'X1' is not defined"),
    "a group in itself": ([W1, "group g any g X1", "quorum g"], "line 2: member 'g' is not defined"),
    "a member twice": ([W1, "group g any X1 X1", "quorum g"], "line 2: .* a member twice"),
    "a member of two groups": (
        [W1, W2, "group g any X1", "group h any X1 X2", "quorum h"],
        "line 4: member 'X1' is in another group",
    ),
    "a group without members": ([W1, "group g any", "quorum g"], "line 2: group 'g' needs 1 to 0"),
    "all of no members": ([W1, "group g all", "quorum g"], "line 2: group 'g' needs 1 to 0"),
    "none of its members": ([W1, "group g 0 X1", "quorum g"], "line 2: group 'g' needs 1 to 1"),
    "more than its members": ([W1, "group g 2 X1", "quorum g"], "line 2: group 'g' needs 1 to 1"),
    "a number with a zero before it": ([W1, "group g 01 X1", "quorum g"], "line 2: the number of members"),
    "a number with a sign": ([W1, "group g +1 X1", "quorum g"], "line 2: the number of members"),
    "an Arabic digit": ([W1, "group g ١ X1", "quorum g"], "line 2: the number of members"),
    "a carriage return": ([W1 + "\r", "quorum X1\r"], "line 1: a control character"),
    "a form feed": ([W1, "quorum\x0cX1"], "line 2: a control character"),
    "a delete": ([W1, "#\x7f", "quorum X1"], "line 2: a control character"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_policy_is_refused_by_the_line(name: str) -> None:
    lines, message = REFUSED[name]
    with pytest.raises(Malformed, match=message):
        parsed(*lines)


def test_a_file_that_is_cut_off_or_too_long_is_refused() -> None:
    with pytest.raises(Malformed, match="the last line has no newline"):
        Policy.parse(EXAMPLE[:-1].encode())
    with pytest.raises(Malformed, match="the last line has no newline"):
        Policy.parse(b"")
    with pytest.raises(Malformed, match="at most"):
        Policy.parse(b"#" * 1_000_000 + b"\n")


def test_a_policy_that_no_file_states_cannot_be_made() -> None:
    log, witness = PolicyLog(LOG.key), PolicyWitness("w", KEYS["X1"])
    for logs, several, groups, quorum in (
        ((log, log), (), (), None),
        ((), (witness,), (), "v"),
        ((), (PolicyWitness("a b", KEYS["X1"]),), (), None),
        ((), (PolicyWitness("", KEYS["X1"]),), (), None),
        ((), (PolicyWitness("w", KEYS["X1"], "a\nquorum none"),), (), None),
        ((), (witness,), (PolicyGroup("g", 2, ("w",)),), "g"),
        ((PolicyLog(VerifierKey("a\x7fb", Algorithm.ED25519, LOG.key.public_key)),), (), (), None),
    ):
        with pytest.raises(Malformed):
            Policy(logs, several, groups, quorum)


def test_the_common_form_has_one_log_a_url_for_each_witness_and_no_comments() -> None:
    lines = [f"log {LOG.key} https://log.example", f"{W1} https://a.example", f"{W2} https://b.example"]
    policy = parsed("# ours", *lines, "group g 2 X1 X2", "quorum g")
    written = "".join(f"{line}\n" for line in [*lines, "group g all X1 X2", "quorum g"])
    assert policy.encode() == written.encode()
    with pytest.raises(ValueError, match="X1 has none"):
        parsed(lines[0], W1, "quorum X1").encode()
    with pytest.raises(ValueError, match="has one log, not 2"):
        parsed(lines[0], f"log {NEXT_LOG.key}", "quorum none").encode()


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    free = list(names)
    groups = []
    for number in range(draw(st.integers(0, 3))):
        if not free:
            break
        members = tuple(draw(st.lists(st.sampled_from(free), unique=True, min_size=1)))
        groups.append(PolicyGroup(f"g{number}", draw(st.integers(1, len(members))), members))
        free = [name for name in free if name not in members] + [f"g{number}"]
    quorum = draw(st.sampled_from([None, *names, *(group.name for group in groups)]))
    url = st.none() | st.just("https://w.example/")
    logs = tuple(
        PolicyLog(signer.key, draw(url)) for signer in draw(st.lists(st.sampled_from([LOG, NEXT_LOG]), unique_by=id))
    )
    return Policy(logs, tuple(PolicyWitness(name, KEYS[name], draw(url)) for name in names), tuple(groups), quorum)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(policies(), st.sets(st.sampled_from(NAMES)))
def test_every_policy_is_read_as_it_was_written_and_holds_as_its_groups_do(policy: Policy, cosigned: set[str]) -> None:
    assert Policy.parse(policy.encode(common=False)) == policy

    groups = {group.name: group for group in policy.groups}
    known = {witness.name for witness in policy.witnesses}

    def met(name: str) -> bool:
        if name not in groups:
            return name in known & cosigned
        return len([member for member in groups[name].members if met(member)]) >= groups[name].threshold

    assert policy.satisfied(KEYS[name] for name in cosigned) is (policy.quorum is None or met(policy.quorum))


# --- Valid checkpoints ----------------------------------------------------------------------------------------------

TWO_OF_THREE = parsed(
    f"log {LOG.key}", f"log {NEXT_LOG.key}", *witnesses("X1", "X2", "X3"), "group g 2 X1 X2 X3", "quorum g"
)


def test_a_checkpoint_is_valid_when_a_key_of_its_log_signed_and_the_quorum_cosigned() -> None:
    for log in (LOG, NEXT_LOG):
        opened = TWO_OF_THREE.open(note(log, SIGNERS["X3"], SIGNERS["X1"]), origin=ORIGIN)
        assert [signature.key for signature in opened.cosignatures] == [KEYS["X3"], KEYS["X1"]]


def test_cosignatures_beyond_the_quorum_are_kept_and_unknown_ones_are_not() -> None:
    opened = TWO_OF_THREE.open(note(LOG, *SIGNERS.values()))
    assert [signature.key for signature in opened.cosignatures] == [KEYS["X1"], KEYS["X2"], KEYS["X3"]]


def test_a_checkpoint_without_the_quorum_is_refused_and_its_cosigners_are_named() -> None:
    with pytest.raises(VerificationError, match="quorum g is not met: cosigned by X2"):
        TWO_OF_THREE.open(note(LOG, SIGNERS["X2"], SIGNERS["Y1"]))
    with pytest.raises(VerificationError, match="cosigned by nobody"):
        TWO_OF_THREE.open(note(LOG))
    twice = Note(TEXT, (sign_text(TEXT, LOG), cosign(TEXT, 1, SIGNERS["X1"]), cosign(TEXT, 2, SIGNERS["X1"])))
    with pytest.raises(VerificationError, match="cosigned by X1"):
        TWO_OF_THREE.open(twice.encode())


def test_a_checkpoint_that_its_log_did_not_sign_is_refused_whatever_its_cosignatures() -> None:
    with pytest.raises(VerificationError, match="no key of the log signed"):
        TWO_OF_THREE.open(note(SIGNERS["X1"], SIGNERS["X2"]))


def test_a_checkpoint_of_another_origin_is_refused() -> None:
    other = Checkpoint("example.com/log/b", 5, bytes(range(32))).text()
    with pytest.raises(VerificationError, match=r"is of 'example\.com/log/b', not of a log of the policy"):
        TWO_OF_THREE.open(note(LOG, SIGNERS["X1"], SIGNERS["X2"], text=other))
    with pytest.raises(VerificationError, match=r"is of 'example\.com/log', not of 'example\.com/log/b'"):
        TWO_OF_THREE.open(note(LOG, SIGNERS["X1"], SIGNERS["X2"]), origin="example.com/log/b")


def test_a_cosignature_of_another_checkpoint_rejects_the_note() -> None:
    other = Checkpoint(ORIGIN, 6, bytes(range(32))).text()
    lines = (sign_text(TEXT, LOG), cosign(TEXT, 1, SIGNERS["X1"]), cosign(TEXT, 1, SIGNERS["X2"]))
    mixed = Note(TEXT, (*lines, cosign(other, 1, SIGNERS["X3"])))
    TWO_OF_THREE.open(Note(TEXT, lines).encode())
    with pytest.raises(VerificationError, match="does not verify"):
        TWO_OF_THREE.open(mixed.encode())


def test_a_quorum_is_fresh_when_enough_of_its_cosignatures_are() -> None:
    lines = tuple(cosign(TEXT, time, SIGNERS[name]) for name, time in (("X1", 900), ("X2", 500), ("X3", 9000)))
    signatures = open_note(Note(TEXT, lines), KEYS.values())
    TWO_OF_THREE.check_freshness(signatures, now=1000, age_seconds_max=500)
    with pytest.raises(VerificationError, match=r"is not fresh: .*X2.*500 seconds old.*X3.*8000 seconds ahead"):
        TWO_OF_THREE.check_freshness(signatures, now=1000, age_seconds_max=499)
    findings = freshness_findings(signatures, now=1000, age_seconds_max=499)
    assert list(findings) == [KEYS["X2"], KEYS["X3"]]
    with pytest.raises(VerificationError, match="no cosignatures"):
        TWO_OF_THREE.check_freshness([], now=1000, age_seconds_max=499)
