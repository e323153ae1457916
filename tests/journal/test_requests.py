"""Requests bring their own randomness: no two of them the same, in this process or in a forked child."""

from __future__ import annotations

import os
import threading

from sealbook.journal import entries, requests


def salts(count: int) -> list[bytes]:
    return [requests.append("r", [entries.note("x")], epoch=1).salt for _ in range(count)]


def test_no_two_requests_have_the_same_salt() -> None:
    found = salts(1000)
    assert len(set(found)) == 1000
    assert {len(salt) for salt in found} == {32}


def test_threads_do_not_share_a_salt() -> None:
    found: list[list[bytes]] = []
    threads = [threading.Thread(target=lambda: found.append(salts(500))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({salt for part in found for salt in part}) == 8 * 500


def test_a_forked_child_does_not_have_its_parents_salts() -> None:
    salts(1)  # so that there are some in stock
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, b"".join(salts(64)))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reader, 64 * 32)
    os.close(reader)
    os.close(writer)
    assert len(theirs) == 64 * 32
    assert not {theirs[start : start + 32] for start in range(0, len(theirs), 32)} & set(salts(64))
