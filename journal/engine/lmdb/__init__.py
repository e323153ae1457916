"""A store on disk, over LMDB, that processes share.

What LMDB does when it is not treated with respect, and what is done here about it:

- Its wait for the write lock can be neither interrupted nor timed out: `flock(writer.lock)` is taken first, with a
  deadline. A transaction begins and ends in one function on one thread.
- A replaced lock file lets two writers in, and acknowledged commits vanish: both lock files are compared before every
  commit. Closing any descriptor of lock.mdb in a process drops LMDB's locks in it: it is only ever `stat`ed.
- A file goes on after its name is gone: commits to a data file that was replaced vanish, so it is compared as well.
- A failed commit may have happened: the environment is opened anew and our own rows are looked for.
- Changing the map's size kills the read transactions of the process: they are waited for.
- A fork inherits everything: an engine in a child refuses every call, and touches nothing of the parent's.
- A file that ends early, or that is no LMDB file, kills the process: it is examined before LMDB sees it.
"""

from __future__ import annotations

from sealbook.journal.engine.lmdb.creation import STORE_PLACE
from sealbook.journal.engine.lmdb.datafile import DATA_FORMAT as ENGINE_FORMAT
from sealbook.journal.engine.lmdb.engine import LmdbEngine

__all__ = ["ENGINE_FORMAT", "STORE_PLACE", "LmdbEngine"]
