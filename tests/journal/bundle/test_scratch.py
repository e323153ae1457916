"""What is remembered of each run stays the same when it moves out of memory."""

from __future__ import annotations

import random

from sealbook.journal.bundle.scratch import Scratch

SEED = 20261129


def test_it_answers_as_a_dictionary_does_however_little_it_may_hold() -> None:
    chance = random.Random(SEED)
    small, model = Scratch(held_max=3), dict[bytes, bytes]()
    for _ in range(500):
        name = b"%d" % chance.randrange(40)
        assert small.get(name) == model.get(name)
        model[name] = chance.randbytes(8)
        small.put(name, model[name])
    assert list(small.values()) == sorted(model.values())
    small.close()


def test_values_come_in_the_order_of_their_bytes_also_from_memory() -> None:
    scratch = Scratch()
    for word in (b"c", b"a", b"b"):
        scratch.put(word, word)
    assert list(scratch.values()) == [b"a", b"b", b"c"]


def test_it_holds_no_more_than_it_may() -> None:
    scratch = Scratch(held_max=10)
    for number in range(100):
        scratch.put(b"%d" % number, b"x")
        assert len(scratch._held) <= 10
    scratch.close()


def test_a_closed_one_has_forgotten() -> None:
    scratch = Scratch(held_max=1)
    scratch.put(b"a", b"1")
    scratch.put(b"b", b"2")
    scratch.close()
    assert scratch.get(b"a") is None
