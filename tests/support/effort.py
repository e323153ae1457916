"""How much of a long suite is run: all of it where SEALBOOK_TEST_WHOLE is 1, as in `make check`, else a seeded part."""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random
from typing import Final, TypeVar

T = TypeVar("T")

WHOLE: Final = os.environ.get("SEALBOOK_TEST_WHOLE") == "1"
SEED: Final = int(os.environ.get("SEALBOOK_TEST_SEED", "20261129"))
PART: Final = 5  # one in so many, where not all are run


def share(count: int) -> int:
    """So many times, or a part of them."""
    return count if WHOLE else -(-count // PART)


def sample(items: Sequence[T]) -> list[T]:
    """All of the items, or a part that the seed chooses: at least one."""
    if WHOLE or not items:
        return list(items)
    print(f"seed {SEED}")
    return Random(f"{SEED} {len(items)}").sample(items, share(len(items)))
