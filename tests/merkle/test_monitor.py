"""The rules of a whole log, its tree as its leaves come in, and a log that goes on from another one."""

from __future__ import annotations

import pytest

from sealbook.merkle.checkpoint import Checkpoint
from sealbook.merkle.entry import LeafEntry, LeafType, adopted_leaf
from sealbook.merkle.errors import VerificationError
from sealbook.merkle.hashing import EMPTY_ROOT, leaf_hash, node_hash
from sealbook.merkle.monitor import Growth, check_handed_over, check_run_rules

HEAD = bytes(range(0x80, 0xA0))


def entries(*places: tuple[str, LeafType, int]) -> list[LeafEntry]:
    return [LeafEntry(kind, run.encode().ljust(32), seq, HEAD) for run, kind, seq in places]


SEAL, ANCHOR = LeafType.SEAL, LeafType.ANCHOR


def test_a_log_of_growing_runs_that_end_in_their_seals_keeps_the_rules() -> None:
    check_run_rules([])
    check_run_rules(
        iter(
            entries(
                ("a", ANCHOR, 1),
                ("b", ANCHOR, 7),
                ("a", ANCHOR, 2),
                ("c", SEAL, 1),
                ("a", SEAL, 9),
                ("b", SEAL, 8),
            )
        )
    )


@pytest.mark.parametrize("seq", [4, 5])
@pytest.mark.parametrize("kind", [SEAL, ANCHOR])
def test_a_seq_of_a_run_that_does_not_increase_breaks_the_log(kind: LeafType, seq: int) -> None:
    with pytest.raises(VerificationError, match=f"leaf 2.*record {seq} follows record 5"):
        check_run_rules(entries(("a", ANCHOR, 5), ("b", ANCHOR, 9), ("a", kind, seq)))


@pytest.mark.parametrize("kind", [SEAL, ANCHOR])
def test_whatever_follows_a_seal_breaks_the_log(kind: LeafType) -> None:
    with pytest.raises(VerificationError, match=r"leaf 2.*sealed at record 5"):
        check_run_rules(entries(("a", SEAL, 5), ("b", ANCHOR, 6), ("a", kind, 6)))


def batch(covered: int) -> LeafEntry:
    return LeafEntry(LeafType.ANCHOR_BATCH, bytes(32), covered, bytes(32))


@pytest.mark.parametrize("covered", [4, 5])
def test_an_anchor_batch_that_covers_no_later_arrival_breaks_the_log(covered: int) -> None:
    check_run_rules([batch(5), *entries(("a", SEAL, 9)), batch(6)])
    with pytest.raises(VerificationError, match=f"leaf 2.*covers arrival {covered} and follows one that covers 5"):
        check_run_rules([batch(5), *entries(("a", SEAL, 9)), batch(covered)])


def test_the_root_of_a_batch_is_no_run_tag() -> None:
    check_run_rules([batch(5), *entries(("", ANCHOR, 9)), batch(6)])


def test_only_the_first_leaf_may_adopt_another_log() -> None:
    adopted = adopted_leaf("old", 7, HEAD)
    check_run_rules([adopted, *entries(("a", SEAL, 1))])
    with pytest.raises(VerificationError, match="leaf 1 adopts another log"):
        check_run_rules([*entries(("a", SEAL, 1)), adopted])


# --- the tree as its leaves come in ----------------------------------------------------------------------------------


def test_a_log_that_grows_in_any_portions_has_the_root_of_the_definition() -> None:
    def mth(leaves: list[bytes]) -> bytes:
        if len(leaves) < 2:
            return leaf_hash(leaves[0]) if leaves else EMPTY_ROOT
        split = 1 << (len(leaves) - 1).bit_length() - 1
        return node_hash(mth(leaves[:split]), mth(leaves[split:]))

    data = [bytes([number]) for number in range(40)]
    for first in range(40):
        growth = Growth()
        growth.add([leaf_hash(value) for value in data[:first]])
        assert growth.root() == mth(data[:first])
        again = Growth(growth.size, growth.peaks)  # as it is read back from where it was kept
        again.add([leaf_hash(value) for value in data[first:]])
        assert (again.size, again.root()) == (40, mth(data))


def test_a_size_and_hashes_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ValueError, match="a tree of 3 leaves has 2 peaks, not 1"):
        Growth(3, [bytes(32)])


# --- a log that goes on from another one -----------------------------------------------------------------------------


SEEN = Checkpoint("example.com/old", 7, HEAD)


@pytest.mark.parametrize(("size", "root"), [(7, HEAD), (8, bytes(32))])
def test_a_log_that_goes_on_from_what_was_seen_or_later_is_accepted(size: int, root: bytes) -> None:
    check_handed_over(adopted_leaf(SEEN.origin, size, root), SEEN)


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (adopted_leaf("example.com/other", 7, HEAD), "adopts another log than 'example.com/old'"),
        (adopted_leaf(SEEN.origin, 6, HEAD), "from size 6, and size 7 had been seen"),
        (adopted_leaf(SEEN.origin, 7, bytes(32)), "from root 0000.* at size 7, seen was 8081"),
        (LeafEntry(LeafType.SEAL, HEAD, 7, HEAD), "adopts no other log"),
    ],
)
def test_a_log_that_goes_on_from_something_else_is_refused(first: LeafEntry, reason: str) -> None:
    with pytest.raises(VerificationError, match=reason):
        check_handed_over(first, SEEN)
