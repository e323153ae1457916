"""The asynchronous face of a leased run: the verbs of `LeasedRun`, awaited, over the very same rules.

A task beside the body renews the lease. Once it is lost the body is cancelled, and the block ends in `Fenced`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from inspect import isawaitable
from typing import Any, TypeVar

from sealbook.journal.aio.verbs import WritingFace
from sealbook.journal.running import admitting
from sealbook.journal.running.admitting import Admission
from sealbook.journal.running.arguments import Key
from sealbook.journal.running.holding import Hold
from sealbook.journal.running.leased import UnderLease, promised_by
from sealbook.journal.running.needs import Call, Need, OpenStore, Pause, Read, Rule, Submit
from sealbook.journal.running.recovery import Recovery
from sealbook.journal.running.rules import Resumption, RunRules

T = TypeVar("T")

PauseFor = Callable[[float], Awaitable[Any]]


class AwaitedQuestion(Awaitable[bool]):
    """A question to be awaited. Taken for its answer it is a mistake, which it says itself."""

    def __init__(self, ask: Callable[[], Awaitable[bool]]) -> None:
        self._ask = ask

    def __await__(self) -> Generator[Any, Any, bool]:
        return self._ask().__await__()

    def __bool__(self) -> bool:
        raise TypeError("await it: `if await run.cancel_requested`")


class AsyncLeasedRun(UnderLease):
    """A run under a lease, as `AsyncTenant.leased` opens it: `async with tenant.leased(run, owner=…) as run:`.

    The verbs are those of `LeasedRun`, awaited, and so is `cancel_requested`. An effect's function may be an
    asynchronous one, which is awaited, or a plain one, which is called in the task itself. When the lease is lost the
    body is cancelled where it waits, and the block ends in `Fenced`. A block that ends cleanly releases the lease; one
    that ends in an exception, a cancellation too, leaves what a crash would leave.
    """

    def __init__(self, tenant: WritingFace, rules: RunRules) -> None:
        self._tenant = tenant
        self._rules = rules

    @property
    @promised_by(RunRules.cancel_requested)
    def cancel_requested(self) -> Awaitable[bool]:
        return AwaitedQuestion(lambda: self._do(self._rules.cancel_requested()))

    @promised_by(RunRules.effect)
    async def effect(
        self,
        name: str,
        fn: Callable[..., Any],
        /,
        *args: Any,
        key: Key | None = None,
        recovery: Recovery = "ask",
        **kwargs: Any,
    ) -> Any:
        return await self._do(self._rules.effect(name, fn, args, kwargs, key, recovery))

    @promised_by(RunRules.note)
    async def note(self, text: str | None = None, *, data: Mapping[str, Any] | None = None) -> None:
        await self._do(self._rules.note(text, data))

    @promised_by(RunRules.snapshot)
    async def snapshot(self, state: Any) -> None:
        await self._do(self._rules.snapshot(state))

    @promised_by(RunRules.now)
    async def now(self, *, key: Key | None = None) -> datetime:
        return await self._do(self._rules.now(key))

    @promised_by(RunRules.random)
    async def random(self, *, key: Key | None = None) -> float:
        return await self._do(self._rules.random(key))

    @promised_by(RunRules.suspend)
    async def suspend(self, *, until: datetime | str | None = None, awaiting: Any = None) -> Resumption | None:
        return await self._do(self._rules.suspend(until, awaiting))

    @promised_by(RunRules.resume)
    async def resume(self, event: Any = None) -> bool:
        return await self._do(self._rules.resume(event))

    @promised_by(RunRules.conclude)
    async def conclude(self, outcome: str, *, seal: bool | None = None, data: Mapping[str, Any] | None = None) -> None:
        await self._do(self._rules.conclude(outcome, seal, data))

    async def _do(self, rule: Rule[T]) -> T:
        return await carry_out(rule, self._perform)

    async def _perform(self, need: Need) -> Any:
        if isinstance(need, Call):
            answer = need.function(*need.arguments, **need.options)
            return await answer if isawaitable(answer) else answer
        return await _of_tenant(self._tenant, need)


@asynccontextmanager
async def leased(
    tenant: WritingFace, run: str, *, owner: str, ttl: float, case: str | None, pause: PauseFor | None = None
) -> AsyncIterator[AsyncLeasedRun]:
    """What `AsyncTenant.leased` does. `pause` waits between two renewals: the event loop's, unless a test has one."""
    host = tenant._ready()
    store: OpenStore = tenant._sync.view
    hold = Hold(run, owner=owner, ttl=ttl, clock=store.clock)
    lineage = store.setting.identity.lineage_id
    rules = RunRules(hold, lineage, clock=store.clock, strand=host.task, case=case)
    live = AsyncLeasedRun(tenant, rules)
    pause = host.sleep if pause is None else pause
    await live._do(rules.enter())

    async def keep() -> None:
        async def perform(need: Need) -> Any:
            return await pause(need.seconds) if isinstance(need, Pause) else await _of_tenant(tenant, need)

        await carry_out(hold.keep(), perform)

    ended = clean = False
    try:
        async with host.scope() as scope:
            hold.when_lost = scope.stop
            scope.start(keep)
            yield live
            ended = True
        if not ended and hold.lost is not None:  # the body was cancelled, and nobody but us did it
            raise hold.lost
        clean = True
    finally:
        hold.over = True
        if clean:
            await live._do(rules.leave(clean=True))


async def admit(
    tenant: WritingFace,
    source: str,
    id: str,
    *,
    run: str | None = None,
    case: str | None = None,
    data: Mapping[str, Any] | None = None,
) -> Admission:
    """What `AsyncTenant.admit` does."""
    rule = admitting.admit(source, id, run=run, case=case, data=data)
    return await carry_out(rule, lambda need: _of_tenant(tenant, need))


async def carry_out(rule: Rule[T], perform: Callable[[Need], Awaitable[Any]]) -> T:
    """Run the rule to its end, awaiting each need. Between two of them no other task runs, so it needs no lock."""
    try:
        need = next(rule)
        while True:
            try:
                answer = await perform(need)
            except BaseException as error:
                need = rule.throw(error)
            else:
                need = rule.send(answer)
    except StopIteration as end:
        answer_of_rule: T = end.value
        return answer_of_rule


async def _of_tenant(tenant: WritingFace, need: Need) -> Any:
    if isinstance(need, Submit):
        if need.ends:
            return await tenant._ready().to_the_end(lambda: tenant._submit(need.request))
        return await tenant._submit(need.request)
    assert isinstance(need, Read)
    return await need.ask(tenant)
