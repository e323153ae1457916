"""Print every public name of the library: what it is, its bases, and the signatures of its methods.

    python tools/public_names.py > tests/public_names.txt
    python tools/public_names.py --methods    (the methods of METHODS_OF, as docs/api.md lists them)

`tests/test_public_names.py` holds the library to that page, so that a name, a base or a parameter never goes unnoticed.
Of bases it prints the public and the built-in ones. How classes are made that callers only receive is left out.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import sys
from collections.abc import Iterator

RECEIVED = frozenset(
    {"AsyncFollowing", "AsyncLeasedRun", "AsyncStoreLog", "AsyncTenant", "Following", "Journal", "LeasedRun", "Log"}
    | {"StoreLog", "Tenant"}
)
MODULES = (
    "sealbook.merkle",
    "sealbook.indexes",
    "sealbook.journal",
    "sealbook.journal.bundle",
    "sealbook.journal.testing",
)


METHODS_OF = ("Journal", "Tenant", "LeasedRun")


def methods() -> Iterator[str]:
    """The methods of the classes that callers use most, each with its signature and what it does in one line."""
    public = importlib.import_module("sealbook.journal")
    for name in METHODS_OF:
        thing = getattr(public, name)
        yield f"### {name}"
        yield ""
        for member in sorted(dir(thing)):
            if not member.startswith("_") and (shown := _member(thing, member)):
                says = (inspect.getdoc(getattr(thing, member)) or "").split("\n\n")[0].replace("\n", " ")
                signature = "" if shown == ": property" else shown.replace("(self, ", "(").replace("(self)", "()")
                yield f"- `{member}{signature.removesuffix(' (classmethod)').replace('(cls, ', '(')}`: {_first(says)}"
        yield ""


def _first(text: str) -> str:
    """The first sentence."""
    end = text.find(". ")
    return text if end < 0 else text[: end + 1]


def lines() -> Iterator[str]:
    """The page, line by line."""
    for module in MODULES:
        yield f"# {module}"
        public = importlib.import_module(module)
        things = {name: getattr(public, name) for name in sorted(public.__all__)}
        for name, thing in things.items():
            yield from _thing(name, thing, [other for other in things.values() if inspect.isclass(other)])
        yield ""


def _thing(name: str, thing: object, public: list[type]) -> Iterator[str]:
    if inspect.ismodule(thing):
        yield f"{name}: module"
    elif inspect.isclass(thing):
        above = [base for base in thing.__mro__[1:-1] if base in public or base.__module__ == "builtins"]
        bases = ", ".join(base.__name__ for base in above)
        yield f"{name}: class({bases})"
        if issubclass(thing, enum.Enum):
            yield f"    members: {', '.join(thing.__members__)}"
            return
        init = vars(thing).get("__init__")
        if callable(init) and name not in RECEIVED and not getattr(thing, "_is_protocol", False):
            yield f"    __init__{_signature(init)}"
        for member in sorted(dir(thing)):
            if not member.startswith("_") and (shown := _member(thing, member)):
                yield f"    {member}{shown}"
    elif hasattr(thing, "__origin__"):
        yield f"{name}: type alias"
    elif callable(thing):
        yield f"{name}{_signature(thing)}"
    else:
        yield f"{name}: {type(thing).__name__}"


def _member(owner: type, name: str) -> str | None:
    found = inspect.getattr_static(owner, name)
    home = next(base for base in owner.__mro__ if name in vars(base))
    if not home.__module__.startswith("sealbook."):
        return None
    if isinstance(found, property):
        return ": property"
    if isinstance(found, staticmethod | classmethod):
        return f"{_signature(found.__func__)} ({type(found).__name__})"
    return _signature(found) if inspect.isfunction(found) else None


def _signature(function: object) -> str:
    try:
        found = inspect.signature(function)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "(…)"
    parameters = [parameter.replace(annotation=_text(parameter.annotation)) for parameter in found.parameters.values()]
    return str(found.replace(parameters=parameters, return_annotation=_text(found.return_annotation)))


def _text(annotation: object) -> object:
    """The annotation as it stands in the source, without the modules that its names come from."""
    if annotation is inspect.Parameter.empty or isinstance(annotation, str):
        text = annotation
    else:
        text = getattr(annotation, "__name__", str(annotation))
    if not isinstance(text, str):
        return text
    for alias in ("requests.", "ask.", "leases.", "typing."):
        text = text.replace(alias, "")
    return _Unquoted(text)


class _Unquoted(str):
    """Text that a signature shows as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


if __name__ == "__main__":
    sys.stdout.write("\n".join(methods() if sys.argv[1:] == ["--methods"] else lines()))
