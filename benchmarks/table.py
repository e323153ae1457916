"""The rows that a run of the benchmarks prints and keeps: what was measured, beside whom, and the target."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

COLUMNS = ("workload", "peer", "ours", "theirs", "ratio", "target", "ok")
_WIDTHS = (44, 50, 0, 0, 0, 0, 0)  # in characters; longer text is folded, 0 is never folded


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison. `ratio` is ours to theirs, as `workload` says it; without a target it is there to be read."""

    workload: str
    peer: str
    ours: str
    theirs: str
    ratio: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def target(self) -> str:
        """The target as people read it."""
        if self.at_least is not None:
            return f">= {self.at_least:g}"
        return "" if self.at_most is None else f"<= {self.at_most:g}"

    @property
    def ok(self) -> bool:
        """Whether the target is met; a row without one is."""
        above = self.at_least is None or self.ratio >= self.at_least
        return above and (self.at_most is None or self.ratio <= self.at_most)

    def cells(self) -> tuple[str, ...]:
        """The row as text, one cell per column."""
        verdict = "" if not self.target else "yes" if self.ok else "no"
        return self.workload, self.peer, self.ours, self.theirs, f"{self.ratio:.2f}", self.target, verdict


def rendered(rows: Sequence[Row]) -> str:
    """The rows as one table of aligned text."""
    folded = [[_folded(cell, width) for cell, width in zip(row.cells(), _WIDTHS, strict=True)] for row in rows]
    heads = [[name] for name in COLUMNS]
    widths = [max(len(line) for row in [heads, *folded] for line in row[column]) for column in range(len(COLUMNS))]
    lines = _lines(heads, widths)
    lines.append("-" * (sum(widths) + 2 * (len(widths) - 1)))
    for row in folded:
        lines += _lines(row, widths)
    return "\n".join(lines)


def _folded(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width) if width and len(text) > width else [text]


def _lines(cells: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    height = max(len(cell) for cell in cells)
    lines = []
    for number in range(height):
        texts = [cell[number] if number < len(cell) else "" for cell in cells]
        lines.append("  ".join(text.ljust(width) for text, width in zip(texts, widths, strict=True)).rstrip())
    return lines


def save(path: Path, rows: Sequence[Row], circumstances: dict[str, Any]) -> None:
    """Write the rows as JSON, with the circumstances that they were measured under."""
    listed = [{**asdict(row), "target": row.target, "ok": row.ok} for row in rows]
    path.write_text(json.dumps({"circumstances": circumstances, "rows": listed}, indent=2) + "\n")
