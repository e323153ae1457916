"""Where a listing goes on, and every cursor that it does not take (D13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from store_checks import in_pages

from sealbook.journal import EffectKey, InvalidCursor, Journal, Page, Tenant, entries
from sealbook.journal.reading import cursors

SECRET = bytes(range(32))
LISTING = ("by_outcome", "failed")


def test_a_cursor_gives_back_its_position() -> None:
    for position in (b"", b"\0", b"r" * 300, bytes(range(256))):
        assert cursors.decode(SECRET, "acme", LISTING, cursors.encode(SECRET, "acme", LISTING, position)) == position


def test_a_cursor_is_text_for_urls() -> None:
    text = cursors.encode(SECRET, "acme", LISTING, bytes(range(256)))
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize(
    ("secret", "tenant", "listing"),
    [
        (bytes(32), "acme", LISTING),
        (SECRET, "acme2", LISTING),
        (SECRET, "acm", LISTING),
        (SECRET, "acme", ("by_outcome", "done")),
        (SECRET, "acme", ("by_outcome",)),
        (SECRET, "acme", ("by_outcomefailed",)),
        (SECRET, "acme", ("by_outcome", "failed", "")),
    ],
)
def test_a_cursor_of_another_store_tenant_listing_or_argument_is_refused(
    secret: bytes, tenant: str, listing: tuple[str, ...]
) -> None:
    issued = cursors.encode(SECRET, "acme", LISTING, b"position")
    with pytest.raises(InvalidCursor):
        cursors.decode(secret, tenant, listing, issued)


def test_a_cursor_with_one_character_changed_is_refused() -> None:
    issued = cursors.encode(SECRET, "acme", LISTING, b"some position of a row")
    for index in range(len(issued)):
        changed = issued[:index] + ("B" if issued[index] == "A" else "A") + issued[index + 1 :]
        with pytest.raises(InvalidCursor):
            cursors.decode(SECRET, "acme", LISTING, changed)


MALFORMED = ["", "A", "AA", "A" * 21, "=", "a b", "a\n", "é", "\ud800", "A" * 3000, "../..", None, 5, b"AAAA", "A" * 22]


@pytest.mark.parametrize("text", MALFORMED, ids=repr)
def test_a_malformed_cursor_is_refused(text: Any) -> None:
    with pytest.raises(InvalidCursor):
        cursors.decode(SECRET, "acme", LISTING, text)


def test_a_cursor_has_one_spelling() -> None:
    for size in range(3, 7):  # so that the last character has 0, 2 and 4 bits to spare
        issued = cursors.encode(SECRET, "acme", LISTING, bytes(size))
        others = [issued + "=" * (-len(issued) % 4 or 4), issued + "\n", " " + issued]
        others += [
            issued[:-1] + last for last in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if last != issued[-1]
        ]
        for other in others:
            with pytest.raises(InvalidCursor):
                cursors.decode(SECRET, "acme", LISTING, other)


# --- every listing of a tenant --------------------------------------------------------------------------------------

Listing = Callable[..., Page[Any]]
LISTINGS: dict[str, Callable[[Tenant], Listing]] = {
    "read": lambda tenant: lambda **page: tenant.read("r0", **page),
    "history": lambda tenant: tenant.history,
    "history backwards": lambda tenant: lambda **page: tenant.history(reverse=True, **page),
    "effects": lambda tenant: lambda **page: tenant.effects("r0", **page),
    "runs": lambda tenant: tenant.runs,
    "runs, all": lambda tenant: lambda **page: tenant.runs(all=True, **page),
    "runs by prefix": lambda tenant: lambda **page: tenant.runs(prefix="r", **page),
    "waiting": lambda tenant: tenant.waiting,
    "by_outcome": lambda tenant: lambda **page: tenant.by_outcome("failed", **page),
    "recent": lambda tenant: tenant.recent,
    "recent_from": lambda tenant: lambda **page: tenant.recent_from("shop", **page),
    "names": lambda tenant: lambda **page: tenant.names("case", **page),
    "case_history": lambda tenant: lambda **page: tenant.case_history("c", **page),
    "abandoned": lambda tenant: tenant.abandoned,
}


@pytest.fixture
def full(journal: Journal, acme: Tenant, clock: Any) -> Tenant:
    """A tenant of which every listing has at least five items."""
    for number in range(5):
        lease = acme.acquire(f"r{number}", owner="w", ttl=10)
        keys = [EffectKey(str(index)) for index in range(5)]
        batch = [entries.admitted(source="shop", id=str(number), case="c")]
        batch += [entries.effect_started(key, name="n") for key in keys]
        batch += [entries.note("x", case=f"case-{number}"), entries.concluded("failed")]
        acme.append(lease.run, batch, lease=lease)
        acme.append(lease.run, [entries.suspended(awaiting="x", case="c")], lease=lease)
    clock.advance(60)
    return acme


@pytest.mark.parametrize("name", LISTINGS)
def test_pages_of_any_size_reassemble_the_listing(name: str, full: Tenant) -> None:
    listing = LISTINGS[name](full)
    whole = listing(limit=1000)
    assert len(whole) >= 5
    assert whole.next is None
    for size in (1, 2, 3, len(whole) - 1, len(whole)):
        assert in_pages(listing, size=size) == list(whole)


@pytest.mark.parametrize("name", LISTINGS)
def test_a_page_says_whether_more_exist(name: str, full: Tenant) -> None:
    listing = LISTINGS[name](full)
    whole = listing(limit=1000)
    assert listing(limit=len(whole)).next is None
    assert listing(limit=len(whole) - 1).next is not None


@pytest.mark.parametrize("name", LISTINGS)
def test_a_page_of_0_is_empty_and_stays_where_it_was(name: str, full: Tenant) -> None:
    listing = LISTINGS[name](full)
    first = listing(limit=2)
    nothing = listing(limit=0, after=first.next)
    assert list(nothing) == []
    assert listing(limit=1000, after=nothing.next) == listing(limit=1000, after=first.next)


@pytest.mark.parametrize("name", LISTINGS)
def test_no_listing_takes_the_cursor_of_another_tenant_or_listing(name: str, full: Tenant, journal: Journal) -> None:
    listing = LISTINGS[name](full)
    issued = {other: LISTINGS[other](full)(limit=1).next for other in LISTINGS}
    for other, after in issued.items():
        if other != name:
            for limit in (0, 1):
                with pytest.raises(InvalidCursor):
                    listing(limit=limit, after=after)
    with pytest.raises(InvalidCursor):
        LISTINGS[name](journal.tenant("other"))(after=issued[name])
    with pytest.raises(InvalidCursor):
        LISTINGS[name](Journal.in_memory().tenant("acme"))(after=issued[name])


@pytest.mark.parametrize("text", MALFORMED[:-1], ids=repr)
@pytest.mark.parametrize("name", LISTINGS)
def test_no_listing_takes_a_malformed_cursor(name: str, text: Any, full: Tenant) -> None:
    if text is not None:
        with pytest.raises(InvalidCursor):
            LISTINGS[name](full)(after=text)


def test_a_cursor_of_a_run_takes_that_run_alone(full: Tenant) -> None:
    for listing, other in ((full.read, "r1"), (full.effects, "r1"), (full.case_history, "c2")):
        after = listing("c" if other == "c2" else "r0", limit=1).next
        with pytest.raises(InvalidCursor):
            listing(other, after=after)


def test_a_cursor_whose_row_is_gone_goes_on_after_its_position(full: Tenant) -> None:
    first = full.by_outcome("failed", limit=2)
    assert [item.run for item in first] == ["r4", "r3"]
    full.append("r3", [entries.concluded("exhausted")], epoch=1)
    assert [item.run for item in full.by_outcome("failed", after=first.next)] == ["r2", "r1", "r0"]
    waiting = full.waiting(limit=2)
    assert [item.run for item in waiting] == ["r0", "r1"]
    full.append("r1", [entries.entry("Woken")], epoch=1)
    assert [item.run for item in full.waiting(after=waiting.next)] == ["r2", "r4"]


def test_a_run_that_moves_between_two_pages_appears_again_at_the_top(full: Tenant) -> None:
    first = full.recent(limit=2)
    assert [item.run for item in first] == ["r4", "r3"]
    full.append("r1", [entries.note("x")], epoch=1)
    assert [item.run for item in full.recent(after=first.next)] == ["r2", "r0"]
    assert full.recent(limit=1)[0].run == "r1"
