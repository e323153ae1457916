"""Following in an event loop: what wakes a task, what ends its wait, and that a cancellation takes no record along."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from event_loops import Loop

from sealbook.journal import AsyncFollowing, AsyncTenant, Closed, Following, InvalidCursor, Journal, Tenant, entries
from sealbook.journal.reading.following import PAGE_RECORDS


def add(journal: Journal, run: str, *texts: str, case: str | None = None) -> None:
    journal.tenant().append(run, [entries.note(text, case=case) for text in texts], epoch=1)


def test_the_verb_and_what_it_returns_have_the_same_members_on_both_faces() -> None:
    assert inspect.signature(AsyncTenant.follow) == inspect.signature(Tenant.follow)
    assert inspect.getdoc(AsyncTenant.follow) == inspect.getdoc(Tenant.follow)
    public = [{name for name in vars(face) if not name.startswith("_")} for face in (Following, AsyncFollowing)]
    assert public[0] == public[1]
    for name in ("cursor", "arrival"):
        assert inspect.getdoc(getattr(AsyncFollowing, name)) == inspect.getdoc(getattr(Following, name))


def test_a_task_is_woken_by_what_others_commit_until_it_is_stopped(loop: Loop, journal: Journal) -> None:
    found: list[str] = []

    async def main() -> None:
        async with loop.face(journal) as face, loop.tasks() as start:
            tenant = face.tenant()
            following = tenant.follow("a")

            async def follow() -> None:
                found.extend([record.data["text"] async for record in following])
                found.append("ended")

            add(journal, "a", "1", "2")
            start(follow)
            await loop.settle()
            add(journal, "b", "x")
            await tenant.append("a", [entries.note("3")], epoch=1)
            while following.arrival != 4:  # the pulse beats a little after the answer
                await loop.turn()
            following.stop()

    loop.run(main)
    assert found == ["1", "2", "3", "ended"]
    assert not journal.view.wakeups._rings


def test_a_cancelled_task_has_taken_no_record_with_it(loop: Loop, journal: Journal) -> None:
    found: list[str] = []

    async def main() -> None:
        async with loop.face(journal) as face:
            following = face.tenant().follow()

            async def follow() -> None:
                async for record in following:
                    found.append(record.data["text"])

            for step in range(8):
                async with loop.tasks() as start:
                    cancel = start(follow)
                    for _ in range(step):
                        await loop.turn()
                    add(journal, "a", str(step))
                    cancel()
            assert not journal.view.wakeups._rings
            while (record := await following.take()) is not None:
                found.append(record.data["text"])

    loop.run(main)
    assert found == list("01234567")


def test_closing_the_face_or_the_journal_ends_a_wait_with_closed(loop: Loop, journal: Journal) -> None:
    ended: list[str] = []

    async def main() -> None:
        async with loop.tasks() as start:
            for owned in (False, True):
                async with loop.face(journal) if not owned else loop.face.in_memory() as face:
                    following = face.tenant().follow()

                    async def follow(following: AsyncFollowing = following, owned: bool = owned) -> None:
                        with pytest.raises(Closed):
                            await anext(following)
                        ended.append("its own" if owned else "another's")

                    start(follow)
                    await loop.settle()

    loop.run(main)
    assert ended == ["another's", "its own"]


def test_pages_of_other_cases_are_passed_over(loop: Loop, journal: Journal) -> None:
    async def main() -> None:
        async with loop.face(journal) as face:
            for number in range(3):
                add(journal, "a", *["x"] * PAGE_RECORDS)
                add(journal, "a", str(number), case="k")
            following = face.tenant().follow(case="k")
            assert [(await anext(following)).data["text"] for _ in range(3)] == ["0", "1", "2"]
            assert await following.take() is None
            again = face.tenant().follow(case="k", after=following.cursor)
            assert await again.take() is None
            with pytest.raises(InvalidCursor):
                face.tenant().follow(after=following.cursor)

    loop.run(main)


def test_many_tasks_that_wait_are_woken_together(loop: Loop, journal: Journal) -> None:
    found: list[str] = []

    async def main() -> None:
        async with loop.face(journal) as face, loop.tasks() as start:

            async def follow() -> None:
                found.append((await anext(face.tenant().follow())).data["text"])

            for _ in range(200):
                start(follow)
            await loop.settle()
            add(journal, "a", "1")

    loop.run(main)
    assert found == ["1"] * 200


WRITER = """
import sys
from sealbook.journal import Journal, entries

with Journal.open(sys.argv[1], lock_timeout=60) as journal:
    for number in range(30):
        journal.tenant().append("a", [entries.note(str(number))], epoch=1)
"""


def test_what_another_process_commits_comes_in_order(loop: Loop, tmp_path: Path) -> None:
    store = tmp_path / "s"
    Journal.open(store, create=True).close()

    async def main() -> list[int]:
        async with loop.face.open(store) as face:
            following = face.tenant().follow()
            return [(await anext(following)).seq for _ in range(30)]

    with subprocess.Popen([sys.executable, "-P", "-c", WRITER, str(store)]) as writer:
        assert loop.run(main) == list(range(1, 31))
        assert writer.wait(60) == 0
