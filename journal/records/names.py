"""Names and numbers that callers hand in: what is legal, and how long it may be.

Every limit is in bytes of UTF-8, because that is what a key of the engine is made of. Names are NFC, so that one
name has one spelling, and hold no control characters, so that a name can neither end a key part nor move a terminal.
"""

from __future__ import annotations

import re
import unicodedata

from sealbook.journal.errors import InvalidInput, InvalidName

TENANT_BYTES_MAX = 64
RUN_BYTES_MAX = 128
CASE_BYTES_MAX = 128
ADMISSION_BYTES_MAX = 256  # source and id, each
ACTOR_BYTES_MAX = 256  # also the owner of a lease
KIND_BYTES_MAX = 128
OUTCOME_BYTES_MAX = 32

KEY_BYTES_MAX = 511  # compiled into LMDB
# The longest keys: a case row (tenant 00 case 00 run 00 seq) and a source row (tenant 00 source 00 block run).
assert TENANT_BYTES_MAX + 1 + CASE_BYTES_MAX + 1 + RUN_BYTES_MAX + 1 + 8 <= KEY_BYTES_MAX
assert TENANT_BYTES_MAX + 1 + ADMISSION_BYTES_MAX + 1 + 8 + RUN_BYTES_MAX <= KEY_BYTES_MAX

U64_MAX = 2**64 - 1
EPOCH_MAX = 2**53 - 1  # exact in every JSON reader
RESTORATION = 2**32  # epochs of one restoration of a store
LIMIT_MAX = 2**31 - 1
TTL_MS_MIN = 1_000
TTL_MS_MAX = 10 * 365 * 86_400_000  # ten years; keeps now + ttl far below any overflow

OPERATOR_RUN = "~tenant"  # the store's own record of operator acts on a tenant
STORE_LOG = "~store"  # stands in keys where a tenant's name would, and is none: the store log's rows

_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_KIND = re.compile(r"(?:[A-Za-z][A-Za-z0-9_-]*\.)*[A-Z][A-Za-z0-9]{0,63}", re.ASCII)
_OUTCOME = re.compile(r"[a-z][a-z0-9-]{0,31}", re.ASCII)


def plain_text(value: str) -> str:
    """The text that a value of a subclass of `str` is, such as a member of an enumeration, whatever it prints as."""
    return str.__str__(value)


def check_tenant(name: object) -> str:
    """The tenant's name, or `InvalidName`: `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`."""
    if not isinstance(name, str) or not _TENANT.fullmatch(name):
        raise InvalidName("tenant", name, "must be 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit")
    return plain_text(name)


def check_log(name: object) -> str:
    """The name of a log, as it stands in keys: a tenant's, or that of the store log."""
    return STORE_LOG if name == STORE_LOG else check_tenant(name)


def check_run(name: object) -> str:
    """The name of a run to read: at most 128 bytes; the store's own runs are allowed."""
    return _text("run", name, RUN_BYTES_MAX)


def check_own_run(name: object) -> str:
    """The name of a run that a caller may write to: runs that begin with `~` are the store's own."""
    run = _text("run", name, RUN_BYTES_MAX)
    if run.startswith("~"):
        raise InvalidName("run", name, "begins with ~: such runs are written by the store alone")
    return run


def check_case(name: object) -> str:
    """The name of a case: at most 128 bytes."""
    return _text("case", name, CASE_BYTES_MAX)


def check_source(name: object) -> str:
    """The source half of an admission key: at most 256 bytes."""
    return _text("admission source", name, ADMISSION_BYTES_MAX)


def check_admission_id(name: object) -> str:
    """The id half of an admission key: at most 256 bytes."""
    return _text("admission id", name, ADMISSION_BYTES_MAX)


def check_owner(name: object) -> str:
    """The owner of a lease: at most 256 bytes. It is shown to people and never used to tell who lives."""
    return _text("owner", name, ACTOR_BYTES_MAX)


def check_actor(name: object) -> str:
    """The person or system behind an operator act: not blank, at most 256 bytes."""
    actor = _text("actor", name, ACTOR_BYTES_MAX)
    if not actor.strip():
        raise InvalidName("actor", name, "is blank")
    return actor


def check_kind(name: object) -> str:
    """The name of a record's kind: `[A-Z][A-Za-z0-9]{0,63}`, optionally dotted by a namespace, at most 128 bytes."""
    if not isinstance(name, str) or len(name) > KIND_BYTES_MAX or not _KIND.fullmatch(name):
        raise InvalidName("kind", name, "must look like EffectStarted or temporal.ActivityStarted, at most 128 bytes")
    return plain_text(name)


def check_outcome(name: object) -> str:
    """The name of an outcome: `[a-z][a-z0-9-]{0,31}`."""
    if not isinstance(name, str) or not _OUTCOME.fullmatch(name):
        raise InvalidName("outcome", name, "must be 1 to 32 of a-z 0-9 - and begin with a letter")
    return plain_text(name)


def _text(what: str, value: object, bytes_max: int) -> str:
    if not isinstance(value, str):
        raise InvalidName(what, value, f"must be text, not {type(value).__name__}")
    value = plain_text(value)
    if not value:
        raise InvalidName(what, value, "is empty")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidName(what, value, "holds a lone surrogate, which UTF-8 cannot carry") from None
    if size > bytes_max:
        raise InvalidName(what, value, f"is {size} bytes of UTF-8, the limit is {bytes_max}")
    if value.isascii():
        if not value.isprintable():
            raise InvalidName(what, value, "holds a control character")
        return value
    if any(unicodedata.category(character) == "Cc" for character in value):
        raise InvalidName(what, value, "holds a control character")
    if not unicodedata.is_normalized("NFC", value):
        raise InvalidName(what, value, "is not NFC: normalise it, so that one name has one spelling")
    return value


def check_epoch(value: object) -> int:
    """An epoch: an integer from 0 to 2**53 - 1; booleans are refused."""
    return _integer("epoch", value, EPOCH_MAX)


def check_limit(value: object) -> int:
    """A page's limit: 0 (an empty page) to 2**31 - 1."""
    return _integer("limit", value, LIMIT_MAX)


def check_size(what: str, value: object) -> int:
    """A tree size, a log position or a sequence number: 0 to 2**63 - 1."""
    return _integer(what, value, 2**63 - 1)


def check_ttl(seconds: object) -> int:
    """A lease's time to live in seconds, as whole milliseconds: 1 s to ten years."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise InvalidInput("ttl", seconds, "must be a number of seconds")
    if not TTL_MS_MIN / 1000 <= seconds <= TTL_MS_MAX / 1000:  # false for NaN and infinity too
        raise InvalidInput("ttl", seconds, "must be at least 1 second and at most ten years")
    return int(seconds * 1000)


def _integer(what: str, value: object, value_max: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(what, value, "must be an integer")
    if not 0 <= value <= value_max:
        raise InvalidInput(what, value, f"must be from 0 to {value_max}")
    return int(value)


LIMIT_DEFAULT = 100
