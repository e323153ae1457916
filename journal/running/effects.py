"""An effect: recorded before it acts, answered from the record afterwards, and what is done when its end is missing."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from sealbook.indexes.standing import DONE, EffectStatus
from sealbook.journal import events
from sealbook.journal.deciding import requests
from sealbook.journal.errors import (
    DuplicateEffect,
    InDoubt,
    InvalidEntry,
    InvalidInput,
    KeyRequired,
    SealbookError,
    TooLarge,
    shown,
)
from sealbook.journal.records import entries
from sealbook.journal.records.entries import Entry
from sealbook.journal.records.record import Record
from sealbook.journal.running import arguments, failures
from sealbook.journal.running import recovery as recoveries
from sealbook.journal.running.arguments import CALL, STEP, AskedStep, Key
from sealbook.journal.running.needs import Rule, called
from sealbook.journal.running.recovery import DidNotHappen, Landed, Reconcile, Recovery
from sealbook.journal.running.replay import Step
from sealbook.journal.running.session import Session

KEY_ARGUMENT = "idempotency_key"  # by which a function is handed the key of its idempotent effect

_UNDER_WAY: contextvars.ContextVar[tuple[tuple[object, bytes], ...]] = contextvars.ContextVar("effects under way")


@dataclass(frozen=True, slots=True)
class _Called:
    """What the body wants to have called, and the recovery that it declares."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    declared: str


class Effects(Session):
    """The rule of `effect`, and what its function may ask about itself."""

    def effect(
        self,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        key: Key | None,
        recovery: Recovery,
    ) -> Rule[Any]:
        """Do something in the world, once: have the start recorded, call `fn`, have its end recorded; the result.

        An effect that is done already is answered with its recorded result, and `fn` is not called. One that was
        started and whose end is not recorded is treated as `recovery` says: `"ask"` raises `InDoubt`, `"retry"` calls
        `fn` again, `"idempotent"` does so with the same `idempotency_key`, `reconcile(check)` asks the world. One that
        failed is attempted again, or its failure is handed back (`RecordedFailure`) if the run went on from it.

        We promise one recorded start per attempt, under the current epoch. We cannot recall a call already made by a
        process that lost its lease: `ask` calls at most once; `reconcile` at most once as far as the check can know;
        `retry` once or more; `idempotent` has one effect if the receiver honours the key. It is not a promise that an
        effect happens once: no journal can give that without the receiver's help.

        `key` (an `EffectKey`, or its parts: a text, or a tuple of them) names the effect; without it, it is the nth
        call of this name, which is refused while another effect of the run is under way (`KeyRequired`). Arguments are
        recorded, those longer than 4 KiB by their digest, and must be values that a record can hold; when they differ
        from the recorded ones, it is a `Mismatch`. The result must be such a value too and is returned as a reader gets
        it back: a tuple becomes a list. An exception that `fn` raises is recorded by its type and its text, as a
        failure, and raised on: raise `InDoubt` where the effect may have happened all the same. Anything that is no
        `Exception`, a cancellation or an interrupt, leaves the effect in doubt; so does the `Fenced` by which a verb of
        this run stops `fn`. Why an effect is in doubt is recorded as a note of it, where that is known.
        """
        self.hold.check()
        if not callable(fn):
            raise InvalidInput("function", fn, "must be callable")
        arguments.check_name(name)
        declared = recoveries.name_of(recovery)
        if declared == "idempotent" and KEY_ARGUMENT in kwargs:
            raise InvalidInput("argument", KEY_ARGUMENT, "is given by the run itself")
        if self._concluding:
            raise InvalidInput("effect", name, "must wait until the run's conclusion is recorded")
        if key is None and self._open:
            raise KeyRequired(self.hold.run, f"effect {name}")
        digest = None if key is None else arguments.key_of(key)
        if digest is not None and digest in self._open:
            latest = self._replay.effect(digest)
            raise DuplicateEffect(self.hold.run, digest.hex(), latest.attempt if latest else 1, "under way")
        in_order = key is None or self._in_order()
        asked = AskedStep("EffectStarted", arguments.arguments_data(args, kwargs), name, digest)
        with arguments.recorded_of(name):
            step = self._replay.take(asked, in_order=in_order)
        call = _Called(fn, args, kwargs, declared)
        if step is None:
            number = None if digest is not None else self._replay.next_call(name)
            digest = digest or arguments.key_of_call(name, number or 1)
            marks = self._place(in_order)
            if number is not None:
                marks[CALL] = number
            with self._opened(digest):
                return (yield from self._attempt(asked, digest, marks, call, ()))
        assert step.record.effect is not None
        with self._opened(step.record.effect):
            return (yield from self._revisit(asked, step, call, recovery, in_order))

    def _revisit(self, asked: AskedStep, step: Step, call: _Called, recover: Recovery, in_order: bool) -> Rule[Any]:
        """Answer for an effect that has a recorded start."""
        effect = step.record.effect
        assert effect is not None
        before: tuple[Entry, ...] = ()
        handed = step.handed
        step.handed = True
        if handed:  # asked for before in this block: what it was is read again
            [begun] = yield from self._read(step.record.seq)
            with arguments.recorded_of(asked.name or ""):
                self._replay.check(Step(begun, step.place), asked)
        if step.status in DONE:
            assert step.end is not None
            [end] = (yield from self._read(step.end.seq)) if handed else [step.end]
            return end.data.get("result")
        if step.status is EffectStatus.FAILED and not handed and self._replay.acted_upon(step):
            assert step.end is not None
            raise failures.handed_back(self.hold.run, effect, step.attempt, step.end.data.get("error"))
        if step.status is EffectStatus.STARTED:
            landed, before = yield from self._recover(step, effect, call, recover)
            if landed is not None:
                return landed.data.get("result")
        self._replay.set_aside(step)
        if handed:
            marks = self._place(in_order)
        else:  # another attempt for the same question
            marks = {mark: step.record.data[mark] for mark in (STEP, CALL) if mark in step.record.data} or {STEP: 0}
        return (yield from self._attempt(asked, effect, marks, call, before))

    def _recover(
        self, step: Step, effect: bytes, call: _Called, recover: Recovery
    ) -> Rule[tuple[Record | None, tuple[Entry, ...]]]:
        """What to do about an attempt without an end: the record that it landed, or what precedes another attempt."""
        if not isinstance(recover, Reconcile):
            if recover == step.recovery and recover != "ask":
                return None, ()
            why = step.doubt
            if recover != step.recovery and not why:
                why = f"its start declares {step.recovery!r}, not {recover!r}"
            raise self._in_doubt(effect, step.attempt, why)
        with self._under_way(effect):
            try:
                found = yield from called(recover.check, call.args, call.kwargs)
            except InDoubt as error:
                if error.run:  # of another effect, which the check rests upon
                    raise
                found = error
        if found is DidNotHappen or found is InDoubt:  # the class itself is an answer too
            found = found()
        match found:
            case Landed():
                data = None if found.result is None else {"result": found.result}
                looked = self._reconciled(effect, step, "landed", found.evidence, data)
                [record] = yield from self._append([looked], ends=True)
                return record, ()
            case DidNotHappen():
                return None, (self._reconciled(effect, step, "did-not-happen", found.evidence, None),)
            case InDoubt():
                raise (yield from self._doubted(effect, step, found.reason))
        why = f"its check answered {shown(found)}, which is not Landed, DidNotHappen or InDoubt"
        raise self._in_doubt(effect, step.attempt, why)

    def _doubted(self, effect: bytes, step: Step, why: str) -> Rule[InDoubt]:
        """The error for an effect of which nobody can tell whether it happened; why is recorded, once, as its note."""
        why = failures.cut(str(why or ""))  # whatever a caller's `InDoubt` was given as its reason
        if why and why != step.doubt:
            noted = Entry("Note", {"text": why}, self._case, effect, step.attempt)
            with suppress(SealbookError):  # what the caller must know is the doubt
                yield from self._append([noted], ends=True)
        return self._in_doubt(effect, step.attempt, why)

    def _in_doubt(self, effect: bytes, attempt: int, why: str) -> InDoubt:
        events.say("effect.in_doubt", tenant=self.hold.tenant, run=self.hold.run, attempt=attempt)
        return InDoubt(self.hold.run, effect.hex(), attempt, why)

    def _reconciled(
        self, effect: bytes, step: Step, disposition: str, evidence: Any, data: Mapping[str, Any] | None
    ) -> Entry:
        return entries.effect_reconciled(
            effect, disposition=disposition, evidence=evidence, attempt=step.attempt, case=self._case, data=data
        )

    def _attempt(
        self, asked: AskedStep, effect: bytes, marks: Mapping[str, Any], call: _Called, before: tuple[Entry, ...]
    ) -> Rule[Any]:
        """Record a start, call the function, record how it ended."""
        yield from self._submit(self._start(asked, effect, marks, call, before))
        step = self._replay.effect(effect)
        assert step is not None
        step.handed = True
        attempt = step.attempt
        options = dict(call.kwargs)
        if call.declared == "idempotent":
            options[KEY_ARGUMENT] = self._key_of(effect)
        with self._under_way(effect):
            try:
                result = yield from called(call.fn, call.args, options)
            except InDoubt as error:
                if error.run:  # of another effect, which this one rests upon
                    raise
                raise (yield from self._doubted(effect, step, error.reason)) from error
            except Exception as error:
                if error is not self.hold.lost:  # by which we stopped the function: it says nothing of the effect
                    yield from self._failed(effect, attempt, error)
                raise
        done = entries.effect_done(effect, result=result, attempt=attempt, case=self._case)
        try:
            request = requests.append(self.hold.run, [done], epoch=self.hold.epoch)
        except (InvalidEntry, TooLarge) as error:
            why = f"it was called, and its result cannot be recorded: {error}"
            raise (yield from self._doubted(effect, step, why)) from error
        [ended] = yield from self._submit(request, ends=True)
        return ended.data.get("result")

    def _failed(self, effect: bytes, attempt: int, error: Exception) -> Rule[None]:
        failed = entries.effect_failed(effect, error=failures.described(error), attempt=attempt, case=self._case)
        yield from self._append([failed], ends=True)

    def _start(
        self, asked: AskedStep, effect: bytes, marks: Mapping[str, Any], call: _Called, before: tuple[Entry, ...]
    ) -> requests.Append:
        """The request that starts an attempt. Arguments are encoded once, unless they are too long to stand in it."""
        declared = None if call.declared == "ask" else call.declared

        def request(data: Mapping[str, Any]) -> requests.Append:
            members = {"kwargs": data["kwargs"]} if "kwargs" in data else {}
            members |= {member: data[member] for member in ("args_digest", "args_bytes") if member in data}
            start = entries.effect_started(
                effect,
                name=asked.name or "",
                args=data.get("args"),
                recovery=declared,
                case=self._case,
                data=members | dict(marks),
            )
            return requests.append(self.hold.run, [*before, start], epoch=self.hold.epoch)

        try:
            with arguments.recorded_of(asked.name or ""):
                whole = request(asked.data)
        except TooLarge:
            return request(arguments.digested(asked.data))
        if len(whole.entries[-1].data) <= arguments.ARGUMENT_BYTES_MAX:
            return whole
        return request(arguments.digested(asked.data))

    @property
    def epoch(self) -> int:
        """The epoch that this execution writes under: a fencing token to pass on to whoever can compare it."""
        return self.hold.epoch

    @property
    def idempotency_key(self) -> str:
        """64 hex digits that name the effect under way: the same in every attempt of it, and after a restore."""
        for owner, effect in _UNDER_WAY.get(()):
            if owner is self:
                return self._key_of(effect)
        raise InvalidInput("idempotency_key", None, "is known inside of an effect's function only")

    def _key_of(self, effect: bytes) -> str:
        return arguments.idempotency_key(self._lineage, self.hold.tenant, self.hold.run, effect)

    @contextmanager
    def _opened(self, effect: bytes) -> Iterator[None]:
        self._open.add(effect)
        try:
            yield
        finally:
            self._open.discard(effect)

    @contextmanager
    def _under_way(self, effect: bytes) -> Iterator[None]:
        token = _UNDER_WAY.set(((self, effect), *_UNDER_WAY.get(())))
        try:
            yield
        finally:
            _UNDER_WAY.reset(token)
