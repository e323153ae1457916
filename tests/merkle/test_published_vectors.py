"""Other people's numbers: published vectors, the RFC's definitions written down naively, and independent programs.

The naive definitions below are held to the published vectors; ours are held to the vectors as far as these reach and
to the naive definitions beyond.
"""

from __future__ import annotations

import hashlib
import json
import random
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sealbook.merkle.errors import VerificationError
from sealbook.merkle.hashing import EMPTY_ROOT, HASH_BYTES, LeafHash, leaf_hash, node_hash
from sealbook.merkle.tree import Node, Reader, added, consistency_proof, inclusion_proof, root
from sealbook.merkle.verify import verify_consistency, verify_inclusion

SEED = 6962

# --- RFC 6962 section 2.1, as it is written. `D[start:end]` is a pair of numbers. -----------------------------------

Hash = Callable[[int, int], bytes]


def naive_hash(leaf: Callable[[int], bytes]) -> Hash:
    """MTH over the data items that `leaf` gives."""

    @cache
    def mth(start: int, end: int) -> bytes:
        if end == start:
            return hashlib.sha256().digest()
        if end - start == 1:
            return hashlib.sha256(b"\x00" + leaf(start)).digest()
        k = naive_split(end - start)
        return hashlib.sha256(b"\x01" + mth(start, start + k) + mth(start + k, end)).digest()

    return mth


def naive_split(n: int) -> int:
    """The largest power of two smaller than n."""
    k = 1
    while 2 * k < n:
        k *= 2
    return k


def naive_path(m: int, start: int, end: int, mth: Hash) -> list[bytes]:
    """PATH(m, D[start:end])."""
    n = end - start
    if n == 1:
        return []
    k = naive_split(n)
    if m < k:
        return [*naive_path(m, start, start + k, mth), mth(start + k, end)]
    return [*naive_path(m - k, start + k, end, mth), mth(start, start + k)]


def naive_proof(m: int, n: int, mth: Hash) -> list[bytes]:
    """PROOF(m, D[n]) = SUBPROOF(m, D[n], true)."""
    return naive_subproof(m, 0, n, True, mth)


def naive_subproof(m: int, start: int, end: int, b: bool, mth: Hash) -> list[bytes]:
    n = end - start
    if m == n:
        return [] if b else [mth(start, end)]
    k = naive_split(n)
    if m <= k:
        return [*naive_subproof(m, start, start + k, b, mth), mth(start + k, end)]
    return [*naive_subproof(m - k, start + k, end, False, mth), mth(start, start + k)]


# --- Subtrees, as draft-ietf-plants-merkle-tree-certs defines them --------------------------------------------------


def is_subtree(start: int, end: int) -> bool:
    bit_ceil = 1
    while bit_ceil < end - start:
        bit_ceil *= 2
    return start == end or start % bit_ceil == 0


def naive_subtree_proof(start: int, end: int, low: int, high: int, b: bool, mth: Hash) -> list[bytes]:
    """SUBTREE_PROOF(start, end, D[low:high]), all numbers counted from the tree's first leaf."""
    if (start, end) == (low, high):
        return [] if b else [mth(low, high)]
    middle = low + naive_split(high - low)
    if end <= middle:
        return [*naive_subtree_proof(start, end, low, middle, b, mth), mth(middle, high)]
    if middle <= start:
        return [*naive_subtree_proof(start, end, middle, high, b, mth), mth(low, middle)]
    assert start == low
    return [*naive_subtree_proof(middle, end, middle, high, False, mth), mth(low, middle)]


def naive_covering(start: int, end: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The two subtrees that together cover the leaves from start to end and as few others as they can."""
    if end - start <= 1:
        return (start, end), (end, end)
    last = end - 1
    split = (start ^ last).bit_length() - 1
    mask = (1 << split) - 1
    middle = last & ~mask
    left_split = (~start & mask).bit_length()
    return (start & ~((1 << left_split) - 1), middle), (middle, end)


# --- Trees to compare -----------------------------------------------------------------------------------------------


def stored_tree(leaves: Sequence[bytes]) -> dict[Node, bytes]:
    return dict(added(0, [leaf_hash(leaf) for leaf in leaves], lambda nodes: []))


def reader(nodes: dict[Node, bytes], first_leaf: int = 0) -> Reader:
    """Reads the stored nodes as those of a tree that begins at `first_leaf`."""
    return lambda asked: [nodes[Node(level, index + (first_leaf >> level))] for level, index in asked]


@pytest.fixture(scope="module")
def reference(shared: Path) -> dict[str, Any]:
    return _json(shared / "vectors/rfc6962/reference.json")


@pytest.fixture(scope="module")
def accumulated(shared: Path) -> dict[str, Any]:
    return _json(shared / "vectors/rfc6962/subtree-accumulated.json")


def _json(path: Path) -> dict[str, Any]:
    members: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return members


# --- rfc6962/reference.json -----------------------------------------------------------------------------------------


def test_the_reference_tree_has_its_published_nodes_and_roots(reference: dict[str, Any]) -> None:
    leaves = [bytes.fromhex(leaf) for leaf in reference["leaf_inputs_hex"]]
    published = {
        Node(level, index): bytes.fromhex(value)
        for level, row in enumerate(reference["node_hashes_by_level"])
        for index, value in enumerate(row)
    }
    assert len(leaves) == 8
    nodes = stored_tree(leaves)
    assert nodes == published
    assert bytes.fromhex(reference["empty_root"]) == EMPTY_ROOT
    mth = naive_hash(leaves.__getitem__)
    for size, value in enumerate(reference["root_for_size"]):
        assert root(size, reader(nodes)).hex() == value
        assert mth(0, size).hex() == value


# --- rfc6962/subtree-accumulated.json -------------------------------------------------------------------------------

LEAVES_MAX = 130


@pytest.fixture(scope="module")
def nodes() -> dict[Node, bytes]:
    return stored_tree([bytes([number]) for number in range(LEAVES_MAX)])


@pytest.fixture(scope="module")
def mth() -> Hash:
    return naive_hash(lambda number: bytes([number]))


def subtrees(size: int) -> Iterator[tuple[int, int]]:
    for end in range(size + 1):
        for start in range(end + 1):
            if is_subtree(start, end):
                yield start, end


def digest(lines: Iterator[str]) -> str:
    rolling = hashlib.sha256()
    for line in lines:
        rolling.update(line.encode())
    return rolling.hexdigest()


def proof_line(place: str, proof: list[bytes]) -> str:
    return place + "".join(f" {value.hex()}" for value in proof) + "\n"


def test_all_subtree_hashes_have_the_published_digest(
    accumulated: dict[str, Any], nodes: dict[Node, bytes], mth: Hash
) -> None:
    published = accumulated["subtree_hash"]["sha256"]
    ours = (f"[{s}, {e}) {root(e - s, reader(nodes, s)).hex()}\n" for s, e in subtrees(LEAVES_MAX))
    naive = (f"[{s}, {e}) {mth(s, e).hex()}\n" for s, e in subtrees(LEAVES_MAX))
    assert digest(ours) == published
    assert digest(naive) == published


def test_all_inclusion_proofs_have_the_published_digest(
    accumulated: dict[str, Any], nodes: dict[Node, bytes], mth: Hash
) -> None:
    def ours(index: int, start: int, end: int) -> list[bytes]:
        return inclusion_proof(index=index - start, size=end - start, read=reader(nodes, start))

    def naive(index: int, start: int, end: int) -> list[bytes]:
        return naive_path(index - start, start, end, mth)

    for prove in (ours, naive):
        lines = (
            proof_line(f"{index} [{start}, {end})", prove(index, start, end))
            for start, end in subtrees(LEAVES_MAX)
            for index in range(start, end)
        )
        assert digest(lines) == accumulated["inclusion"]["sha256"]


def test_all_consistency_proofs_have_the_published_digest(
    accumulated: dict[str, Any], nodes: dict[Node, bytes], mth: Hash
) -> None:
    """Subtrees that begin at leaf 0 go through our prover; the others, which no log of ours needs, through the
    naive definition."""

    def prove(start: int, end: int, size: int) -> list[bytes]:
        if start == end:
            return []
        if start == 0:
            return consistency_proof(old_size=end, new_size=size, read=reader(nodes))
        return naive_subtree_proof(start, end, 0, size, True, mth)

    lines = (
        proof_line(f"[{start}, {end}) {size}", prove(start, end, size))
        for size in range(LEAVES_MAX + 1)
        for start, end in subtrees(size)
    )
    assert digest(lines) == accumulated["consistency"]["sha256"]


def test_the_covering_subtrees_have_the_published_digest(accumulated: dict[str, Any]) -> None:
    lines = (
        "[{}, {}) [{}, {})\n".format(*naive_covering(start, end)[0], *naive_covering(start, end)[1])
        for end in range(LEAVES_MAX + 1)
        for start in range(end + 1)
    )
    assert digest(lines) == accumulated["covering"]["sha256"]


# --- merkle-probes --------------------------------------------------------------------------------------------------

READ_DIFFERENTLY: dict[str, str] = {
    "consistency/additional/sizes-are-equal-one-and-proof-is-empty.json": (
        "accepted by its authors although both roots are 12 bytes: we refuse roots that are not 32 bytes"
    ),
}
"""Probes that our verifiers read otherwise than their authors, each with the reason (decision D24). The probes with
old size 0 are not among them: their authors refuse it as we do."""


def probe_holds(probe: dict[str, Any]) -> bool:
    proof = [b64decode(value, validate=True) for value in probe["proof"] or []]
    if "leafHash" in probe and len(b64decode(probe["leafHash"], validate=True)) != HASH_BYTES:
        return False  # no LeafHash can be made of it
    try:
        if "leafIdx" in probe:
            verify_inclusion(
                leaf=LeafHash(b64decode(probe["leafHash"], validate=True)),
                index=probe["leafIdx"],
                size=probe["treeSize"],
                proof=proof,
                root=b64decode(probe["root"], validate=True),
            )
        else:
            verify_consistency(
                old_size=probe["size1"],
                new_size=probe["size2"],
                old_root=b64decode(probe["root1"], validate=True),
                new_root=b64decode(probe["root2"], validate=True),
                proof=proof,
            )
    except VerificationError:
        return False
    return True


def test_every_probe_is_accepted_or_refused_as_its_authors_meant(shared: Path) -> None:
    folder = shared / "vectors/merkle-probes"
    probes = {str(path.relative_to(folder)): _json(path) for path in sorted(folder.rglob("*.json"))}
    assert len(probes) == 147
    assert sum(not probe["wantErr"] for probe in probes.values()) == 8
    # A listed probe that no longer differs fails here as one that differs without being listed does.
    differing = {name for name, probe in probes.items() if probe_holds(probe) == probe["wantErr"]}
    assert differing == set(READ_DIFFERENTLY)


# --- The naive definitions and ours ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_ours_agree_with_the_naive_definition_on_every_size_up_to_300() -> None:
    leaves = [number.to_bytes(2) for number in range(300)]
    nodes, mth = stored_tree(leaves), naive_hash(leaves.__getitem__)
    read = reader(nodes)
    hashes = [LeafHash(nodes[Node(0, index)]) for index in range(300)]
    for size in range(301):
        top = root(size, read)
        assert top == mth(0, size)
        for index in range(size):
            proof = inclusion_proof(index=index, size=size, read=read)
            assert proof == naive_path(index, 0, size, mth)
            verify_inclusion(leaf=hashes[index], index=index, size=size, proof=proof, root=top)
        for old_size in range(1, size + 1):
            proof = consistency_proof(old_size=old_size, new_size=size, read=read)
            assert proof == naive_proof(old_size, size, mth)
            verify_consistency(
                old_size=old_size, new_size=size, old_root=mth(0, old_size), new_root=top, proof=proof
            )  # fmt: skip


@pytest.mark.slow
def test_ours_agree_with_the_naive_definition_on_random_trees_of_tens_of_thousands() -> None:
    print("seed", SEED)
    chance = random.Random(SEED)
    leaves = [chance.randbytes(8) for _ in range(40_000)]
    nodes, mth = stored_tree(leaves), naive_hash(leaves.__getitem__)
    read = reader(nodes)
    for _ in range(300):
        size = chance.randint(301, len(leaves))
        index, old_size = chance.randrange(size), chance.randint(1, size)
        top = root(size, read)
        assert top == mth(0, size)
        path = inclusion_proof(index=index, size=size, read=read)
        assert path == naive_path(index, 0, size, mth)
        verify_inclusion(leaf=leaf_hash(leaves[index]), index=index, size=size, proof=path, root=top)
        proof = consistency_proof(old_size=old_size, new_size=size, read=read)
        assert proof == naive_proof(old_size, size, mth)
        verify_consistency(old_size=old_size, new_size=size, old_root=mth(0, old_size), new_root=top, proof=proof)


def huge_sizes(chance: random.Random) -> Iterator[int]:
    yield from (2**40, 2**62 - 1, 2**62)
    for _ in range(200):
        yield chance.randint(2, 2 ** chance.randint(2, 62))


def test_ours_read_the_nodes_of_the_naive_definition_on_trees_of_up_to_2_to_the_62() -> None:
    """Complete subtrees have made-up hashes here, so that a node of the wrong level or number is noticed."""
    print("seed", SEED)
    chance = random.Random(SEED)

    def made_up(node: Node) -> bytes:
        return hashlib.sha256(repr(node).encode()).digest()

    def mth(start: int, end: int) -> bytes:
        width = end - start
        if width.bit_count() == 1:
            assert start % width == 0
            return made_up(Node(width.bit_length() - 1, start // width))
        k = naive_split(width)
        return hashlib.sha256(b"\x01" + mth(start, start + k) + mth(start + k, end)).digest()

    def read(nodes: Sequence[Node]) -> list[bytes]:
        return [made_up(node) for node in nodes]

    for size in huge_sizes(chance):
        index, old_size = chance.randrange(size), chance.randint(1, size)
        assert root(size, read) == mth(0, size)
        assert inclusion_proof(index=index, size=size, read=read) == naive_path(index, 0, size, mth)
        assert consistency_proof(old_size=old_size, new_size=size, read=read) == naive_proof(old_size, size, mth)


def test_proofs_of_huge_trees_of_equal_leaves_verify() -> None:
    print("seed", SEED)
    chance = random.Random(SEED)
    leaf = leaf_hash(b"the same")
    levels: list[bytes] = [leaf]
    while len(levels) < 64:
        levels.append(node_hash(levels[-1], levels[-1]))

    def read(nodes: Sequence[Node]) -> list[bytes]:
        return [levels[node.level] for node in nodes]

    for size in huge_sizes(chance):
        index, old_size = chance.randrange(size), chance.randint(1, size)
        top = root(size, read)
        path = inclusion_proof(index=index, size=size, read=read)
        verify_inclusion(leaf=leaf, index=index, size=size, proof=path, root=top)
        proof = consistency_proof(old_size=old_size, new_size=size, read=read)
        old_root = root(old_size, read)
        verify_consistency(old_size=old_size, new_size=size, old_root=old_root, new_root=top, proof=proof)


# --- Independent programs -------------------------------------------------------------------------------------------


def test_pymerkle_has_the_same_roots() -> None:
    pymerkle = pytest.importorskip("pymerkle")
    theirs = pymerkle.InmemoryTree(algorithm="sha256")
    leaves = [f"leaf {number}".encode() for number in range(150)]
    nodes = stored_tree(leaves)
    for size, leaf in enumerate(leaves, 1):
        theirs.append_entry(leaf)
        assert root(size, reader(nodes)) == theirs.get_root(size)


def test_tlog_scales_accepts_our_proofs_and_refuses_them_for_another_tree() -> None:
    tlog = pytest.importorskip("tlog_scales.tlog")
    leaves = [f"leaf {number}".encode() for number in range(70)]
    nodes = stored_tree(leaves)
    read = reader(nodes)
    for size in range(1, 71):
        top = root(size, read)
        for index in range(size):
            proof = inclusion_proof(index=index, size=size, read=read)
            theirs = tlog.InclusionProof(index, size, proof)
            theirs.check(nodes[Node(0, index)], top)
            with pytest.raises(tlog.InclusionProofInvalid):
                theirs.check(nodes[Node(0, index)], EMPTY_ROOT)
        for old_size in range(1, size):
            old_root = root(old_size, read)
            theirs = tlog.ConsistencyProof(
                old_size, size, consistency_proof(old_size=old_size, new_size=size, read=read)
            )  # fmt: skip
            theirs.check(old_root, top)
            with pytest.raises(tlog.ConsistencyProofInvalid):
                theirs.check(old_root, EMPTY_ROOT)
