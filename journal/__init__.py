"""The journal: an append-only, hash-chained record of agent runs, and the rules for entering it.

>>> from sealbook.journal import Journal, entries
>>> journal = Journal.in_memory()
>>> acme = journal.tenant("acme")
>>> lease = acme.acquire("order-42", owner="worker-1", ttl=30)
>>> records = acme.append("order-42", [entries.admitted(source="shop", id="42")], lease=lease)
>>> [(record.seq, record.kind) for record in records]
[(1, 'RunAdmitted')]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sealbook.indexes.standing import Standing as Standing
from sealbook.journal import errors as errors
from sealbook.journal.checking.report import CheckReport as CheckReport
from sealbook.journal.checking.report import Finding as Finding
from sealbook.journal.checking.report import Level as Level
from sealbook.journal.deciding import requests
from sealbook.journal.deciding.acts import Cancellation as Cancellation
from sealbook.journal.deciding.appending import Appended as Appended
from sealbook.journal.deciding.leases import Lease as Lease
from sealbook.journal.deciding.log.adoption import AdoptedLog as AdoptedLog
from sealbook.journal.deciding.log.anchors import AnchorBatch as AnchorBatch
from sealbook.journal.deciding.log.heads import GatheredHead as GatheredHead
from sealbook.journal.deciding.log.heads import HeadInclusion as HeadInclusion
from sealbook.journal.deciding.log.leaves import ConsistencyProof as ConsistencyProof
from sealbook.journal.deciding.log.leaves import InclusionProof as InclusionProof
from sealbook.journal.deciding.log.leaves import Leaf as Leaf
from sealbook.journal.deciding.operator_acts import CancelAnswer as CancelAnswer
from sealbook.journal.engine.port import Moment as Moment
from sealbook.journal.errors import Busy as Busy
from sealbook.journal.errors import Closed as Closed
from sealbook.journal.errors import CommitUnknown as CommitUnknown
from sealbook.journal.errors import Concluded as Concluded
from sealbook.journal.errors import Conflict as Conflict
from sealbook.journal.errors import Corrupt as Corrupt
from sealbook.journal.errors import DuplicateAdmission as DuplicateAdmission
from sealbook.journal.errors import DuplicateEffect as DuplicateEffect
from sealbook.journal.errors import EffectNotStarted as EffectNotStarted
from sealbook.journal.errors import EffectSettled as EffectSettled
from sealbook.journal.errors import EngineFailed as EngineFailed
from sealbook.journal.errors import Fenced as Fenced
from sealbook.journal.errors import IndexStale as IndexStale
from sealbook.journal.errors import InDoubt as InDoubt
from sealbook.journal.errors import InvalidCursor as InvalidCursor
from sealbook.journal.errors import InvalidEntry as InvalidEntry
from sealbook.journal.errors import InvalidInput as InvalidInput
from sealbook.journal.errors import InvalidName as InvalidName
from sealbook.journal.errors import KeyRequired as KeyRequired
from sealbook.journal.errors import LeaseHeld as LeaseHeld
from sealbook.journal.errors import LeaseNotHeld as LeaseNotHeld
from sealbook.journal.errors import Mismatch as Mismatch
from sealbook.journal.errors import NotConcluded as NotConcluded
from sealbook.journal.errors import NotFound as NotFound
from sealbook.journal.errors import OpenedBeforeFork as OpenedBeforeFork
from sealbook.journal.errors import ReadOnly as ReadOnly
from sealbook.journal.errors import RecordedFailure as RecordedFailure
from sealbook.journal.errors import Refused as Refused
from sealbook.journal.errors import RestoredRun as RestoredRun
from sealbook.journal.errors import RunSealed as RunSealed
from sealbook.journal.errors import SealbookError as SealbookError
from sealbook.journal.errors import StoreFull as StoreFull
from sealbook.journal.errors import StoreMissing as StoreMissing
from sealbook.journal.errors import TooLarge as TooLarge
from sealbook.journal.errors import Unfinished as Unfinished
from sealbook.journal.errors import UnknownVersion as UnknownVersion
from sealbook.journal.errors import WrongFormat as WrongFormat
from sealbook.journal.errors import WrongLoop as WrongLoop
from sealbook.journal.reading.following import Following as Following
from sealbook.journal.reading.listings import Abandoned as Abandoned
from sealbook.journal.reading.listings import Effect as Effect
from sealbook.journal.reading.listings import Page as Page
from sealbook.journal.reading.listings import Waiting as Waiting
from sealbook.journal.records import entries
from sealbook.journal.records.chain import Head as Head
from sealbook.journal.records.entries import EffectKey as EffectKey
from sealbook.journal.records.entries import Entry as Entry
from sealbook.journal.records.record import Record as Record
from sealbook.journal.records.signatures import Ed25519Signer as Ed25519Signer
from sealbook.journal.records.signatures import Signer as Signer
from sealbook.journal.records.trust import Outside as Outside
from sealbook.journal.records.trust import Trust as Trust
from sealbook.journal.records.versions import IdentityUpcaster as IdentityUpcaster
from sealbook.journal.records.versions import Upcaster as Upcaster
from sealbook.journal.running.admitting import Fresh as Fresh
from sealbook.journal.running.admitting import InFlight as InFlight
from sealbook.journal.running.admitting import Replayed as Replayed
from sealbook.journal.running.leased import LeasedRun as LeasedRun
from sealbook.journal.running.recovery import DidNotHappen as DidNotHappen
from sealbook.journal.running.recovery import Landed as Landed
from sealbook.journal.running.recovery import reconcile as reconcile
from sealbook.journal.running.rules import Resumption as Resumption
from sealbook.journal.store.journal import Journal as Journal
from sealbook.journal.store.logs import Log as Log
from sealbook.journal.store.logs import StoreLog as StoreLog
from sealbook.journal.store.tenant import Tenant as Tenant

if TYPE_CHECKING:
    from sealbook.journal.aio.faces import AsyncStoreLog as AsyncStoreLog
    from sealbook.journal.aio.faces import AsyncTenant as AsyncTenant
    from sealbook.journal.aio.following import AsyncFollowing as AsyncFollowing
    from sealbook.journal.aio.leased import AsyncLeasedRun as AsyncLeasedRun
    from sealbook.journal.aio.on_asyncio import AsyncioJournal as AsyncioJournal
    from sealbook.journal.aio.on_trio import TrioJournal as TrioJournal

__all__ = [
    "Abandoned",
    "AdoptedLog",
    "AnchorBatch",
    "Appended",
    "AsyncFollowing",
    "AsyncLeasedRun",
    "AsyncStoreLog",
    "AsyncTenant",
    "AsyncioJournal",
    "Busy",
    "CancelAnswer",
    "Cancellation",
    "CheckReport",
    "Closed",
    "CommitUnknown",
    "Concluded",
    "Conflict",
    "ConsistencyProof",
    "Corrupt",
    "DidNotHappen",
    "DuplicateAdmission",
    "DuplicateEffect",
    "Ed25519Signer",
    "Effect",
    "EffectKey",
    "EffectNotStarted",
    "EffectSettled",
    "EngineFailed",
    "Entry",
    "Fenced",
    "Finding",
    "Following",
    "Fresh",
    "GatheredHead",
    "Head",
    "HeadInclusion",
    "IdentityUpcaster",
    "InDoubt",
    "InFlight",
    "InclusionProof",
    "IndexStale",
    "InvalidCursor",
    "InvalidEntry",
    "InvalidInput",
    "InvalidName",
    "Journal",
    "KeyRequired",
    "Landed",
    "Leaf",
    "Lease",
    "LeaseHeld",
    "LeaseNotHeld",
    "LeasedRun",
    "Level",
    "Log",
    "Mismatch",
    "Moment",
    "NotConcluded",
    "NotFound",
    "OpenedBeforeFork",
    "Outside",
    "Page",
    "ReadOnly",
    "Record",
    "RecordedFailure",
    "Refused",
    "Replayed",
    "RestoredRun",
    "Resumption",
    "RunSealed",
    "SealbookError",
    "Signer",
    "Standing",
    "StoreFull",
    "StoreLog",
    "StoreMissing",
    "Tenant",
    "TooLarge",
    "TrioJournal",
    "Trust",
    "Unfinished",
    "UnknownVersion",
    "Upcaster",
    "Waiting",
    "WrongFormat",
    "WrongLoop",
    "entries",
    "errors",
    "reconcile",
    "requests",
]

# Loaded when they are first asked for: a program that runs on neither trio nor asyncio loads neither.
_LOADED_LATER = {
    "AsyncFollowing": "sealbook.journal.aio.following",
    "AsyncLeasedRun": "sealbook.journal.aio.leased",
    "AsyncStoreLog": "sealbook.journal.aio.faces",
    "AsyncTenant": "sealbook.journal.aio.faces",
    "AsyncioJournal": "sealbook.journal.aio.on_asyncio",
    "TrioJournal": "sealbook.journal.aio.on_trio",
}

if not TYPE_CHECKING:  # a type checker takes the names above, and refuses all others

    def __getattr__(name: str) -> Any:
        if name not in _LOADED_LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_LOADED_LATER[name]), name)
