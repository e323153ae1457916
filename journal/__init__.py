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

from sealbook.indexes.standing import Standing as Standing
from sealbook.journal import entries as entries
from sealbook.journal import errors as errors
from sealbook.journal import requests as requests
from sealbook.journal.adoption import AdoptedLog as AdoptedLog
from sealbook.journal.anchoring import AnchorBatch as AnchorBatch
from sealbook.journal.batch import Appended as Appended
from sealbook.journal.batch import CancelAnswer as CancelAnswer
from sealbook.journal.batch import Cancellation as Cancellation
from sealbook.journal.check import CheckReport as CheckReport
from sealbook.journal.check import Finding as Finding
from sealbook.journal.engine.port import Moment as Moment
from sealbook.journal.entries import EffectKey as EffectKey
from sealbook.journal.entries import Entry as Entry
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
from sealbook.journal.errors import LeaseHeld as LeaseHeld
from sealbook.journal.errors import LeaseNotHeld as LeaseNotHeld
from sealbook.journal.errors import Mismatch as Mismatch
from sealbook.journal.errors import NotConcluded as NotConcluded
from sealbook.journal.errors import NotFound as NotFound
from sealbook.journal.errors import OpenedBeforeFork as OpenedBeforeFork
from sealbook.journal.errors import ReadOnly as ReadOnly
from sealbook.journal.errors import Refused as Refused
from sealbook.journal.errors import RunSealed as RunSealed
from sealbook.journal.errors import SealbookError as SealbookError
from sealbook.journal.errors import StoreFull as StoreFull
from sealbook.journal.errors import StoreMissing as StoreMissing
from sealbook.journal.errors import TooLarge as TooLarge
from sealbook.journal.errors import UnknownVersion as UnknownVersion
from sealbook.journal.errors import WrongFormat as WrongFormat
from sealbook.journal.lease import Lease as Lease
from sealbook.journal.reading import Abandoned as Abandoned
from sealbook.journal.reading import Effect as Effect
from sealbook.journal.reading import Page as Page
from sealbook.journal.reading import Waiting as Waiting
from sealbook.journal.record import Ed25519Signer as Ed25519Signer
from sealbook.journal.record import Head as Head
from sealbook.journal.record import IdentityUpcaster as IdentityUpcaster
from sealbook.journal.record import Record as Record
from sealbook.journal.record import Signer as Signer
from sealbook.journal.record import Upcaster as Upcaster
from sealbook.journal.seals import ConsistencyProof as ConsistencyProof
from sealbook.journal.seals import InclusionProof as InclusionProof
from sealbook.journal.seals import Leaf as Leaf
from sealbook.journal.store import Journal as Journal
from sealbook.journal.store import Tenant as Tenant

__all__ = [
    "Abandoned",
    "AdoptedLog",
    "AnchorBatch",
    "Appended",
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
    "Head",
    "IdentityUpcaster",
    "InDoubt",
    "InclusionProof",
    "IndexStale",
    "InvalidCursor",
    "InvalidEntry",
    "InvalidInput",
    "InvalidName",
    "Journal",
    "Leaf",
    "Lease",
    "LeaseHeld",
    "LeaseNotHeld",
    "Mismatch",
    "Moment",
    "NotConcluded",
    "NotFound",
    "OpenedBeforeFork",
    "Page",
    "ReadOnly",
    "Record",
    "Refused",
    "RunSealed",
    "SealbookError",
    "Signer",
    "Standing",
    "StoreFull",
    "StoreMissing",
    "Tenant",
    "TooLarge",
    "UnknownVersion",
    "Upcaster",
    "Waiting",
    "WrongFormat",
    "entries",
    "errors",
    "requests",
]
