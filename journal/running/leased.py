"""The threaded face of a leased run: a context manager whose verbs block; a thread beside it renews the lease.

The verbs may be called from several threads.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import datetime
from types import TracebackType
from typing import Any, Protocol, TypeVar

from sealbook.journal.deciding.leases import Lease
from sealbook.journal.errors import InvalidInput
from sealbook.journal.running import admitting
from sealbook.journal.running.admitting import Admission
from sealbook.journal.running.arguments import Key
from sealbook.journal.running.holding import TTL_S_DEFAULT, Hold
from sealbook.journal.running.needs import Call, Need, Pause, Read, Rule, Submit, TenantOfRun, carry_out
from sealbook.journal.running.recovery import Reconcile, Recovery
from sealbook.journal.running.rules import Resumption, RunRules

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_PLAIN = "this face calls plain functions"


class Stop(Protocol):
    """What ends the pauses between two renewals; a `threading.Event` unless a test brings its own."""

    def wait(self, timeout: float) -> bool:
        """Wait so many seconds, or until it is set; whether it is set."""
        ...

    def set(self) -> None:
        """End this and every later pause."""
        ...


def promised_by(rule: Callable[..., Any]) -> Callable[[F], F]:
    """Give a face's verb the docstring of its rule: one promise, however it is called."""

    def told(verb: F) -> F:
        verb.__doc__ = rule.__doc__
        return verb

    return told


class UnderLease:
    """What a run under a lease is, whichever face its verbs have."""

    _rules: RunRules

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def name(self) -> str:
        """The run's name."""
        return self._rules.hold.run

    @property
    def lease(self) -> Lease | None:
        """The lease as it was last granted; None before the block, and of a run that was sealed before it."""
        return self._rules.hold.lease

    @property
    def epoch(self) -> int:
        """The epoch that this block writes under: a fencing token to pass on to whoever can compare it.

        Of a run that was sealed before the block, it is the last one that was written under.
        """
        return self._rules.epoch

    @property
    def idempotency_key(self) -> str:
        """64 hex digits that name the effect under way: the same in every attempt of it, and after a restore."""
        return self._rules.idempotency_key


class LeasedRun(UnderLease):
    """A run under a lease, as `Tenant.leased` opens it: `with tenant.leased(run, owner=…) as run:`.

    The lease is acquired at the beginning and renewed in the background while the block lasts. Once it is lost, the
    next verb raises `Fenced`. A block that ends cleanly releases it. One that ends in an exception leaves what a crash
    would leave: the lease expires by itself, because nobody knows whether taking over is safe.
    """

    def __init__(
        self,
        tenant: TenantOfRun,
        run: str,
        *,
        owner: str,
        ttl: float = TTL_S_DEFAULT,
        case: str | None = None,
        stop: Stop | None = None,
    ) -> None:
        clock = tenant.view.clock
        lineage = tenant.view.setting.identity.lineage_id
        hold = Hold(run, owner=owner, ttl=ttl, clock=clock)
        self._tenant = tenant
        self._rules = RunRules(hold, lineage, clock=clock, strand=threading.get_ident, case=case)
        self._lock = threading.Lock()
        self._stop: Stop = threading.Event() if stop is None else stop
        self._entered = False
        self._keeper = threading.Thread(target=self._keep, name=f"sealbook-lease-{run}", daemon=True)

    def __enter__(self) -> LeasedRun:
        if self._entered:
            raise InvalidInput("block", self.name, "was entered already: open another one with `leased`")
        self._entered = True
        self._do(self._rules.enter())
        try:
            self._keeper.start()
        except BaseException:
            self._do(self._rules.leave(clean=True))
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._keeper.join()
        self._do(self._rules.leave(clean=kind is None))

    # --- the verbs -----------------------------------------------------------------------------------------------

    @property
    @promised_by(RunRules.cancel_requested)
    def cancel_requested(self) -> bool:
        return self._do(self._rules.cancel_requested())

    @promised_by(RunRules.effect)
    def effect(
        self,
        name: str,
        fn: Callable[..., Any],
        /,
        *args: Any,
        key: Key | None = None,
        recovery: Recovery = "ask",
        **kwargs: Any,
    ) -> Any:
        for function in (fn, recovery.check if isinstance(recovery, Reconcile) else fn):
            if inspect.iscoroutinefunction(function):
                raise InvalidInput("function", function, f"is a coroutine function: {_PLAIN}")
        return self._do(self._rules.effect(name, fn, args, kwargs, key, recovery))

    @promised_by(RunRules.note)
    def note(self, text: str | None = None, *, data: Mapping[str, Any] | None = None) -> None:
        self._do(self._rules.note(text, data))

    @promised_by(RunRules.snapshot)
    def snapshot(self, state: Any) -> None:
        self._do(self._rules.snapshot(state))

    @promised_by(RunRules.now)
    def now(self, *, key: Key | None = None) -> datetime:
        return self._do(self._rules.now(key))

    @promised_by(RunRules.random)
    def random(self, *, key: Key | None = None) -> float:
        return self._do(self._rules.random(key))

    @promised_by(RunRules.suspend)
    def suspend(self, *, until: datetime | str | None = None, awaiting: Any = None) -> Resumption | None:
        return self._do(self._rules.suspend(until, awaiting))

    @promised_by(RunRules.resume)
    def resume(self, event: Any = None) -> bool:
        return self._do(self._rules.resume(event))

    @promised_by(RunRules.conclude)
    def conclude(self, outcome: str, *, seal: bool | None = None, data: Mapping[str, Any] | None = None) -> None:
        self._do(self._rules.conclude(outcome, seal, data))

    # --- inside --------------------------------------------------------------------------------------------------

    def _do(self, rule: Rule[T]) -> T:
        return carry_out(rule, self._lock, self._perform)

    def _keep(self) -> None:
        self._do(self._rules.hold.keep())

    def _perform(self, need: Need) -> Any:
        match need:
            case Call():
                answer = need.function(*need.arguments, **need.options)
                if inspect.iscoroutine(answer):
                    answer.close()
                    raise InvalidInput(
                        "function", need.function, f"returned a coroutine, which was not begun: {_PLAIN}"
                    )
                return answer
            case Pause():
                return self._stop.wait(need.seconds)
            case _:
                return _of_tenant(self._tenant, need)


def admit(
    tenant: TenantOfRun,
    source: str,
    id: str,
    *,
    run: str | None = None,
    case: str | None = None,
    data: Mapping[str, Any] | None = None,
) -> Admission:
    """What `Tenant.admit` does."""
    rule = admitting.admit(source, id, run=run, case=case, data=data)
    return carry_out(rule, nullcontext(), lambda need: _of_tenant(tenant, need))


def _of_tenant(tenant: TenantOfRun, need: Need) -> Any:
    if isinstance(need, Submit):
        return tenant.view.submit(tenant.name, need.request)
    assert isinstance(need, Read)
    return need.ask(tenant)
