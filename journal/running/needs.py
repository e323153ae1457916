"""What a rule needs done, as values, and the way a face does it without tasks: every need in turn, on this thread.

A rule is a generator. It yields a need, and is resumed with the need's answer, or with the exception that it ended in;
what it returns is the verb's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from sealbook.journal.deciding.requests import Request
from sealbook.journal.engine.port import Clock
from sealbook.journal.schema.setting import Setting

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
    """What a tenant answers to this question. It writes nothing. A face whose verbs are awaited awaits the answer."""

    ask: Callable[[Any], Any]  # given a tenant, or one whose verbs are awaited: they have the same names


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


class OpenStore(Protocol):
    """What a leased run needs of an open store."""

    @property
    def clock(self) -> Clock:
        """Where the store takes the time from."""
        ...

    @property
    def setting(self) -> Setting:
        """Who the store is."""
        ...

    def submit(self, tenant: str, request: Request) -> Any:
        """Have one request decided and committed; raise its refusal."""
        ...


class TenantOfRun(Protocol):
    """What a leased run needs of its tenant, besides the verbs that its needs ask."""

    @property
    def name(self) -> str:
        """The tenant's name."""
        ...

    @property
    def view(self) -> OpenStore:
        """The open store."""
        ...


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
