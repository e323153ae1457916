"""What a rule needs done, as values, and the way a face does it without tasks: every need in turn, on this thread.

A rule is a generator. It yields a need, and is resumed with the need's answer, or with the exception that it ended in;
what it returns is the verb's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sealbook.journal.deciding.requests import Request

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Submit:
    """Have the request decided and committed, durably. Its answer; its refusal is raised.

    `ends`: it says how something ended that has happened already, so that a cancellation waits until it is recorded.
    """

    request: Request
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """What the tenant's verb of this name answers to these arguments. It writes nothing."""

    verb: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """What the caller's own function returns."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so many seconds; True when the waiting was ended because the run is over."""

    seconds: float


Need = Submit | Read | Call | Pause
Rule = Generator[Need, Any, T]


def called(function: Callable[..., Any], arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Rule[Any]:
    """The rule of a call. A `StopIteration` leaves it as the `RuntimeError` that generators make of it (PEP 479)."""
    return (yield Call(function, arguments, options))


def carry_out(rule: Rule[T], lock: AbstractContextManager[Any], perform: Callable[[Need], Any]) -> T:
    """Run the rule to its end. It moves under the lock, and lets go of it while a need is performed."""
    try:
        with lock:
            need = next(rule)
        while True:
            try:
                answer = perform(need)
            except BaseException as error:
                with lock:
                    need = rule.throw(error)
            else:
                with lock:
                    need = rule.send(answer)
    except StopIteration as end:
        answer_of_rule: T = end.value
        return answer_of_rule
