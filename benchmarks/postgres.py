"""PostgreSQL doing the same work, in a cluster that is made for the benchmark and ends with it.

Its programs are those on PATH. The server listens on a socket of the file system alone. It refuses to run as root, so
that root has it run as `nobody`.
"""

from __future__ import annotations

import importlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers import SCHEMA, Sqlite
from benchmarks.workload import TENANT

USER = "bench"
PROGRAMS = ("initdb", "pg_ctl")
SOCKET_BYTES_MAX = 107  # of the path of a socket, on Linux
OPTIONS = "-c listen_addresses='' -c fsync=on -c synchronous_commit=on -c full_page_writes=on -c max_connections=100"


class Missing(Exception):
    """A peer that cannot be measured here; the text says why."""


class Postgres(Sqlite):
    """One connection: the statements of the peer on SQLite, in PostgreSQL's dialect."""

    settings = "PostgreSQL, synchronous_commit=on, same tables, indexes, checks and chain"

    def __init__(self, address: str, *, create: bool = False) -> None:
        connection = importlib.import_module("psycopg").connect(address, autocommit=True)
        self._db = _Dialect(connection)
        if create:
            connection.execute(_translated_schema(SCHEMA))
            connection.execute("INSERT INTO tenants VALUES (%s, 0, 0)", (TENANT,))


class _Dialect:
    """A connection of psycopg that takes SQLite's statements, as far as the peer uses them."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._statements: dict[str, str] = {}

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        if statement not in self._statements:
            self._statements[statement] = _translated(statement)
        return self._connection.execute(self._statements[statement], values)

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self._connection.cursor().executemany(_translated(statement), rows)

    def close(self) -> None:
        self._connection.close()


def _translated_schema(schema: str) -> str:
    return schema.replace(" WITHOUT ROWID", "").replace("BLOB", "BYTEA").replace("INTEGER", "BIGINT")


def _translated(statement: str) -> str:
    """The statement as PostgreSQL takes it. The tenant's row is locked as it is read: its counter orders arrivals."""
    if statement == "BEGIN IMMEDIATE":
        return "BEGIN"
    if statement.startswith("SELECT arrivals"):
        statement += " FOR UPDATE"
    if statement.startswith("INSERT OR REPLACE INTO tenants"):
        statement = statement.replace(" OR REPLACE", "") + _or_replace("tenant", ("arrivals", "leaves"))
    if statement.startswith("INSERT OR REPLACE INTO runs"):
        statement = statement.replace(" OR REPLACE", "") + _or_replace("tenant, run", RUN_COLUMNS)
    return statement.replace("?", "%s")


def _or_replace(key: str, columns: Sequence[str]) -> str:
    settings = ", ".join(f"{column} = excluded.{column}" for column in columns)
    return f" ON CONFLICT ({key}) DO UPDATE SET {settings}"


RUN_COLUMNS = (
    *("records", "head", "epoch", "first_arrival", "last_arrival", "admitted_at", "updated_at", '"case"', "source"),
    *("last_kind", "outcome", "outcome_arrival", "waiting_seq", "until", "started", "done"),
)


@contextmanager
def cluster(beside: Path) -> Iterator[str]:
    """The address of a server with an empty database; `Missing` when there can be none."""
    for program in PROGRAMS:
        if shutil.which(program) is None:
            raise Missing(f"{program} is not on PATH")
    try:
        importlib.import_module("psycopg")
    except ImportError as error:
        raise Missing(f"psycopg is not installed: {error}") from None
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir=beside))
    data = folder / "data"
    try:
        if len(os.fsencode(folder / ".s.PGSQL.5432")) > SOCKET_BYTES_MAX:
            raise Missing(f"the path of its socket is too long: {folder}")
        _run("initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", within=folder)
        _run("pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", f"{OPTIONS} -k {folder}", "start", within=folder)
        try:
            yield f"host={folder} user={USER} dbname=postgres"
        finally:
            _run("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop", within=folder)
    finally:
        shutil.rmtree(folder)


def _run(*command: str | Path, within: Path) -> None:
    """Run one of its programs, as `nobody` for root."""
    user = "nobody" if os.geteuid() == 0 else None
    if user is not None:
        os.chown(within, pwd.getpwnam(user).pw_uid, -1)
    with tempfile.TemporaryFile() as said:
        ended = subprocess.run(
            command, check=False, user=user, cwd=within, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        said.seek(0)
        if ended.returncode:
            raise Missing(f"{command[0]} failed: {said.read().decode(errors='replace').strip()[-300:]}")
