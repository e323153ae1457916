"""Let many threads use a thing at once, and one thread have it alone.

A signal handler may raise between any two steps of Python, and nothing may stay locked for ever because of it. So
whoever comes in brings a token, coming in stands inside the `try` whose `finally` leaves, leaving with a token that
never came in is harmless, and to leave is one call of C, which no handler can interrupt: `leave(user, None)` and
`release(owner, None)`. Waking the waiting is a second step; they also look for themselves now and then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

LOOK_SECONDS: Final = 0.02  # how often the waiting look for themselves


class Gate:
    """A lock with users and at most one owner. An owner waits for the users to leave, and new users wait for it."""

    leave: Callable[[object, None], Any]
    release: Callable[[object, None], Any]

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._users: dict[object, int] = {}  # token -> the thread that came in with it
        self._claims: dict[object, None] = {}  # tokens of owners in order of arrival; the first is, or will be, it
        self._waiting = 0  # how many wait, or are about to look whether they must; never too few
        self.leave = self._users.pop
        self.release = self._claims.pop

    def enter(self, user: object) -> None:
        """Come in as a user, after whoever owns or claims the thing. Ends with `leave(user, None)`."""
        with self._lock:
            if self._claims:
                self._wait_while(lambda: bool(self._claims), None)
            self._users[user] = threading.get_ident()

    def claim(self, owner: object, deadline: float | None, *, beside_own: bool = False) -> bool:
        """Become the owner once all users have left; False when `deadline` (monotonic seconds) passes before.

        With `beside_own` this thread's own uses do not count. Ends with `release(owner, None)`, in either case.
        """
        me = threading.get_ident() if beside_own else None

        def is_kept_out() -> bool:
            # Copies, each made in one call of C: others leave and release while we look.
            return list(self._claims).index(owner) > 0 or any(user != me for user in list(self._users.values()))

        with self._lock:
            self._claims[owner] = None
            return self._wait_while(is_kept_out, deadline) if self._users or len(self._claims) > 1 else True

    def wake(self) -> None:
        """Let the waiting look now, after a `leave` or `release`."""
        # Whoever counts itself in after this look has not looked yet itself, and will see what was left or released.
        if self._waiting:
            with self._lock:
                self._changed.notify_all()

    def _wait_while(self, is_kept_out: Callable[[], bool], deadline: float | None) -> bool:
        """Under the lock: wait until nothing keeps us out; False when `deadline` passes before."""
        self._waiting += 1
        try:
            while is_kept_out():
                left = LOOK_SECONDS if deadline is None else min(LOOK_SECONDS, deadline - time.monotonic())
                if left <= 0:
                    return False
                self._changed.wait(left)
            return True
        finally:
            self._waiting -= 1

    def used_by_this_thread(self) -> bool:
        """Whether this thread is among the users, so that waiting for them would never end."""
        return threading.get_ident() in list(self._users.values())
