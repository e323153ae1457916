"""How an exception is recorded as an effect's failure, and handed back when the run is replayed.

What is recorded is the exception's type and its text, cut to a length; nothing else of it, no traceback and no
attribute. So a record tells what the exception itself says, and a caller's exception must not say a secret.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from sealbook.journal.errors import RecordedFailure

TYPE_CHARACTERS_MAX = 200
MESSAGE_CHARACTERS_MAX = 2000


def described(error: Exception) -> dict[str, str]:
    """The exception as an `EffectFailed` records it: `type`, as `module.Name`, and `message`."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        message = str(error)
    except Exception:  # a foreign __str__ that fails must not hide the failure itself
        message = ""
    return {"type": cut(name, TYPE_CHARACTERS_MAX), "message": cut(message)}


def handed_back(run: str, effect: bytes, attempt: int, recorded: object) -> RecordedFailure:
    """The recorded failure as an exception: a `RecordedFailure` that is of the recorded type too, if that is loaded.

    The exception has the recorded text and none of the attributes that the first one had.
    """
    found = recorded if isinstance(recorded, Mapping) else {"message": recorded}
    name, message = (str(found.get(member) or "") for member in ("type", "message"))
    values = (run, effect.hex(), attempt, name or "Exception", message)
    kind = _loaded(name)
    if kind is not None and not issubclass(RecordedFailure, kind):
        try:
            return _both(kind, values)
        except TypeError:  # a type that cannot have a sibling, or that refuses to be made
            pass
    return RecordedFailure(*values)


def _both(kind: type[Exception], values: tuple[Any, ...]) -> RecordedFailure:
    members = {"__reduce__": lambda self: (RecordedFailure, values)}  # elsewhere the type may not be loaded
    both: Any = type(kind.__name__, (RecordedFailure, kind), members)
    error: RecordedFailure = both.__new__(both)
    RecordedFailure.__init__(error, *values)
    return error


def _loaded(name: str) -> type[Exception] | None:
    """The exception type of this name among the modules that are loaded: a record makes nobody import anything."""
    parts = name.split(".")
    found: Any = sys.modules["builtins"]
    for count in range(len(parts) - 1, 0, -1):
        if (module := sys.modules.get(".".join(parts[:count]))) is not None:
            found, parts = module, parts[count:]
            break
    for part in parts:
        found = getattr(found, "__dict__", {}).get(part)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def cut(text: str, characters_max: int = MESSAGE_CHARACTERS_MAX) -> str:
    """The text as UTF-8 can carry it, at most so long."""
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= characters_max else f"{text[: characters_max - 1]}…"
