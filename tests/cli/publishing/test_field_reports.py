"""Reports from the field about proofs that take a log with its keys to play through."""

from __future__ import annotations

import pytest
import trio
from publishing_world import World, rules
from tampering import all_rows, change, engine_of

from sealbook.cli.publishing.publisher import NOBODY
from sealbook.journal.deciding.log.promises import PublishedDiffers
from sealbook.journal.schema import tables
from sealbook.merkle.tree import Node


@pytest.mark.parametrize("node", [Node(0, 2), Node(1, 0)], ids=["a seal's hash", "a subtree's hash"])
def test_67_after_a_flipped_bit_the_next_size_is_not_signed(world: World, node: Node) -> None:
    """The two stored hashes that the root of 4 leaves is computed from, when 3 had been signed."""
    trio.run(world.publisher().turn, rules(NOBODY))
    engine, place = engine_of(world.journal), tables.node_place("default", node)
    value = all_rows(engine)[place]
    change(engine, {place: bytes([value[0] ^ 1]) + value[1:]})
    world.grow(1)
    with pytest.raises(PublishedDiffers, match="size 3 had been signed and this log does not begin with it"):
        trio.run(world.publisher().turn, rules(NOBODY))
    kept = world.tenant.signed_checkpoint()
    assert kept is not None and kept.checkpoint.size == 3
