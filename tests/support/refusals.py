"""What a refusal must leave behind: nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sealbook.journal import SealbookError
from sealbook.journal.engine.port import Engine
from sealbook.journal.testing import all_rows


def refused_without_a_trace(
    engine: Engine, kind: type[SealbookError], verb: Callable[..., Any], *args: Any, **options: Any
) -> Any:
    """The error of this kind that the verb raised; every row of every table is as it was before."""
    before = all_rows(engine)
    with pytest.raises(kind) as caught:
        verb(*args, **options)
    assert all_rows(engine) == before
    return caught.value
