"""Tell whoever waits that the store has moved: at once when this process has written, soon when another one has.

However many wait, one thread looks every `LOOK_SECONDS`, at the version of a snapshot and nothing else. While nobody
waits, nobody looks.
"""

from __future__ import annotations

import os
import queue
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from sealbook.journal.errors import SealbookError

LOOK_SECONDS: Final = 0.05  # so that what another process commits is told within a tenth of a second

Ring = Callable[[], object]
"""What is called when the store has moved: from any thread, at any time, also in vain. It is quick and never raises."""


class Pulse:
    """The pulse of one open journal. All of it may be called from any thread."""

    def __init__(self, version: Callable[[], int], *, shared: bool) -> None:
        """`version` reads which commit the store shows; `shared` says whether other processes may write to it."""
        self._version, self._shared = version, shared
        self._rings: dict[Ring, None] = {}
        self._wanted = Bell()  # somebody waits, or the end has come
        self._ended = False
        self._seen: int | None = None  # the version at the last look
        self._end = threading.Lock()  # free once the end has come: the cheapest thing to sleep at
        self._end.acquire()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._pid = os.getpid()

    def hang(self, ring: Ring) -> None:
        """Have this called whenever the store moves. Who looks only afterwards misses nothing."""
        self._rings[ring] = None
        if self._shared:
            if self._thread is None:
                self._start()
            self._wanted.ring()

    def take_down(self, ring: Ring) -> None:
        """Do not call it any more."""
        self._rings.pop(ring, None)

    def beat(self) -> None:
        """The store has moved, or is closed: let everybody who waits look."""
        for ring in list(self._rings):  # a copy made in one call of C: others come and go meanwhile
            ring()

    def close(self) -> None:
        """Look no more. Once the store is closed, a last `beat` lets everybody see that. Closing twice is harmless."""
        self._ended = True
        self._wanted.ring()
        with suppress(RuntimeError):  # closed before
            self._end.release()
        if self._thread is not None and os.getpid() == self._pid:
            self._thread.join()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self._ended:
                wanted = self._wanted
                mine = weakref.ref(self, lambda _: wanted.ring())
                self._thread = threading.Thread(
                    target=_look_for, args=(mine, wanted, self._end), name="sealbook-pulse", daemon=True
                )
                self._thread.start()

    def _look(self) -> bool:
        """Let those who wait know if the store has moved since the last look; whether anybody waits."""
        if not self._rings:
            return False
        version = self._looked()
        if version is None or version != self._seen:
            self._seen = version
            self.beat()
        return True

    def _looked(self) -> int | None:
        """The version; None when the store cannot be read, which those who wait will find out themselves."""
        try:
            return self._version()
        except SealbookError:
            return None


def _look_for(whose: weakref.ref[Pulse], wanted: Bell, end: threading.Lock) -> None:
    """The pulse's thread: it ends with the pulse, also with one that nobody has closed and nobody knows any more."""
    while (pulse := whose()) is not None and not pulse._ended:
        awaited = pulse._look()
        del pulse  # between two looks, the thread keeps nothing alive
        if not awaited:
            wanted.wait()
        elif end.acquire(timeout=LOOK_SECONDS):
            break


class Bell:
    """Where one thread waits until it is rung: from any thread, a signal handler, or while garbage is collected."""

    def __init__(self) -> None:
        self._rung: queue.SimpleQueue[object] = queue.SimpleQueue()

    def ring(self, ringer: object = None) -> None:
        """Let `wait` return, now or the next time. The ringer is kept alive until then."""
        if self._rung.empty():
            self._rung.put(ringer)

    def wait(self, seconds: float | None = None) -> object:
        """Until it has been rung since the last time, or for so many seconds; its ringer, if that has named itself."""
        try:
            ringer = self._rung.get(timeout=seconds)
            while not self._rung.empty():  # rung several times: once is enough
                self._rung.get_nowait()
        except queue.Empty:
            return None
        return ringer
