"""`du`: where the store's bytes are."""

from __future__ import annotations

from typing import Any

import click

from sealbook.cli.ground.options import Verb, format_option
from sealbook.cli.ground.setup import Setup, pass_setup
from sealbook.cli.records import lines, objects
from sealbook.cli.screen import progress
from sealbook.cli.screen.output import Output
from sealbook.cli.screen.safe import safe
from sealbook.cli.screen.words import sized
from sealbook.journal import NotFound
from sealbook.journal.operating.usage import Usage, usage


@click.command("du", cls=Verb, examples=("sealbook du", "sealbook --tenant acme du", "sealbook du -o json"))
@format_option("short", "json")
@pass_setup
def command(setup: Setup, form: str) -> None:
    """Say where the bytes are: per table and per tenant, keys and values; in pages, free ones, and what is overhead.

    Every row is read. All tenants are counted, unless --tenant is given. Free pages are used again by the next commits;
    the file gets smaller in a backup. Overhead is what pages have beyond the rows in them.
    """
    with setup.journal(readonly=True) as journal, progress.shown("counting", quiet=setup.quiet) as report:
        used = usage(journal, progress=report)
    only = setup.tenant if setup.tenant_given else None
    if only is not None and only not in used.tenants:
        raise NotFound("tenant", only)
    with setup.output(paged=True) as output:
        if form == "json":
            _print_object(output, used, only)
        else:
            _print(output, used, only)


def _overhead(used: Usage) -> int:
    storage = used.storage
    return (storage["pages"] - storage["free_pages"]) * storage["page_bytes"] - used.total.bytes


def _print_object(output: Output, used: Usage, only: str | None) -> None:
    answer: dict[str, Any] = {
        "rows": used.total.rows,
        "key_bytes": used.total.key_bytes,
        "value_bytes": used.total.value_bytes,
        "overhead_bytes": _overhead(used),
        "file_bytes": used.storage["file_bytes"],
        "page_bytes": used.storage["page_bytes"],
        "pages": used.storage["pages"],
        "free_pages": used.storage["free_pages"],
        "tables": [
            {
                "table": table,
                "rows": count.rows,
                "key_bytes": count.key_bytes,
                "value_bytes": count.value_bytes,
                "pages": used.storage.get(f"pages.{table}", 0),
            }
            for table, count in used.tables.items()
        ],
        "tenants": [
            {
                "tenant": name or None,
                "rows": used.tenant(name).rows,
                "key_bytes": used.tenant(name).key_bytes,
                "value_bytes": used.tenant(name).value_bytes,
                "tables": {table: count.bytes for table, count in counts.items()},
            }
            for name, counts in used.tenants.items()
            if only is None or name == only
        ],
    }
    output.line(objects.text(answer))


def _print(output: Output, used: Usage, only: str | None) -> None:
    if only is None:
        tables = [(table, count, used.storage.get(f"pages.{table}", 0)) for table, count in used.tables.items()]
        rows = [
            [table, str(count.rows), sized(count.key_bytes), sized(count.value_bytes), str(pages)]
            for table, count, pages in sorted(tables, key=lambda row: -row[1].bytes)
            if count.rows
        ]
        _table(output, ("TABLE", "ROWS", "KEYS", "VALUES", "PAGES"), rows)
        rows = []
        for name in used.tenants:
            whole = used.tenant(name)
            label = safe(name) or "(the store itself)"
            rows.append([label, str(whole.rows), sized(whole.key_bytes), sized(whole.value_bytes)])
        _table(output, ("TENANT", "ROWS", "KEYS", "VALUES"), rows)
    else:
        counts = sorted(used.tenants[only].items(), key=lambda row: -row[1].bytes)
        rows = [[table, str(count.rows), sized(count.key_bytes), sized(count.value_bytes)] for table, count in counts]
        _table(output, (f"TABLE of {safe(only)}", "ROWS", "KEYS", "VALUES"), rows)
    storage = used.storage
    free = storage["free_pages"] * storage["page_bytes"]
    items = [
        ("rows", f"{sized(used.total.bytes)}, keys {sized(used.total.key_bytes)}"),
        ("overhead", f"{sized(_overhead(used))} in pages of {sized(storage['page_bytes'])}"),
        ("free pages", f"{sized(free)}, the list of them included"),
        ("data file", sized(storage["file_bytes"])),
    ]
    lines.pairs(output, items)


def _table(output: Output, headings: tuple[str, ...], rows: list[list[str]]) -> None:
    lines.table(output, headings, [[(cell, ()) for cell in row] for row in rows])
    output.line()
