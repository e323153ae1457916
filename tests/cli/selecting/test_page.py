"""docs/show.md names the fields, levels and formats that there are."""

from __future__ import annotations

import re

from project import ROOT

from sealbook.cli.records import fields, levels
from sealbook.cli.selecting import options

PAGE = (ROOT / "docs" / "show.md").read_text(encoding="utf-8")


def first_cells(heading: str) -> list[str]:
    """What stands as code in the first cells of the table under this head of its."""
    table = PAGE.partition(f"| {heading} |")[2].partition("\n\n")[0]
    return [name for row in re.findall(r"^\| ([^|]+) \|", table, re.M) for name in re.findall(r"`([^`]+)`", row)]


def test_the_page_names_every_field_format_and_level() -> None:
    assert sorted(first_cells("field")) == sorted([*fields.NAMES, "DATA.name"])
    assert sorted(first_cells("`-o`")) == sorted(options.FORMATS)
    assert first_cells("level") == list(levels.NAMES[levels.ERR : levels.INFO + 1])
    for line in (levels.__doc__ or "").splitlines():
        if line.startswith(("| err", "| warning", "| notice", "| info")):
            assert line.partition(" | ")[2] in PAGE
