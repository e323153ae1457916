"""Move every module into its room: `git mv`, and the imports, paths and packages that name it. Run it from the root.

It changes no other line, and running it twice changes nothing. It stands here while anything written before the move
may still come in, and goes afterwards.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# room -> (its sentence, {module in the room: where it was})
JOURNAL: dict[str, tuple[str, dict[str, str]]] = {
    "threads": ("Wake, wait and take turns.", {"turns": "engine.gate", "wakeups": "pulse"}),
    "records": (
        "What a record is, to the byte.",
        {
            "names": "ids",
            "instants": "instants",
            "cbor": "values",
            "entries": "entries",
            "record": "record",
            "trust": "trust",
        },
    ),
    "schema": (
        "Where everything stands in the store.",
        {
            "tables": "tables",
            "standings": "standings",
            "lookup": "lookup",
            "identity": "identity",
            "setting": "setting",
            "origins": "origins",
        },
    ),
    "deciding": (
        "May this enter the journal, and what does it become? Pure: stored rows in, rows to store out.",
        {
            "requests": "requests",
            "overlay": "overlay",
            "recent": "recent",
            "batch": "batch",
            "admission": "admission",
            "leases": "lease",
            "acts": "acts",
        },
    ),
    "deciding.log": (
        "What enters a Merkle log, and what of it may be signed and published.",
        {
            "leaves": "seals",
            "anchors": "anchoring",
            "heads": "heads",
            "checkpoints": "publishing",
            "promises": "published",
            "adoption": "adoption",
        },
    ),
    "reading": (
        "Answer from one snapshot, and follow what comes.",
        {"listings": "reading", "cursors": "cursor", "following": "following"},
    ),
    "keys": (
        "Keys, and what they have promised.",
        {"ring": "keyring", "public_halves": "keyfile", "pkcs8": "pkcs8", "private_files": "private_files"},
    ),
    "checking": (
        "Derive everything again, and say what differs.",
        {
            "findings": "findings",
            "levels": "levels",
            "audit": "audit",
            "whole": "check",
            "quick": "leveled",
            "ends": "ends",
            "records": "sweep",
            "runs": "rederive",
            "chains": "rechain",
            "lookups": "retrace",
            "leaves": "attested",
            "trees": "relog",
            "anchors": "rebatch",
            "checkpoints": "recheckpoint",
            "adoptions": "readopt",
            "outside": "outside",
            "store_log": "reheads",
            "surplus": "surplus",
        },
    ),
    "writing": ("Many callers, one transaction.", {"writer": "writer", "statistics": "statistics"}),
    "store": (
        "The verbs, and the only place that opens transactions.",
        {"verbs": "store", "logs": "log", "reindexing": "reindexing"},
    ),
    "exporting": (
        "Write bundles of a store.",
        {
            "bundle": "exporting",
            "parts": "exported_parts",
            "question": "export_plan",
            "begun": "export_begun",
            "file": "export_file",
        },
    ),
    "operating": (
        "How a store in use is doing.",
        {"usage": "usage", "metrics": "metrics", "held_leases": "held"},
    ),
    "copies": (
        "Another store from this one.",
        {
            "backup": "backup",
            "manifest": "backup_manifest",
            "restoring": "restoring",
            "replaying": "replaying",
        },
    ),
    "copies.salvage": (
        "What is left of a damaged store, page by page and row by row.",
        {"pages": "engine.salvage", "rows": "salvaging", "log": "salvaged_log", "recovering": "recovering"},
    ),
}
CLI: dict[str, tuple[str, dict[str, str]]] = {
    "screen": (
        "How text reaches a person's terminal unharmed.",
        {
            "output": "rendering.output",
            "safe": "rendering.safe",
            "words": "rendering.words",
            "progress": "rendering.progress",
        },
    ),
    "ground": (
        "What every verb stands on: the options before it, the store it opens, the files it is given, its exit code.",
        {
            "setup": "setup",
            "options": "options",
            "exit_codes": "exit_codes",
            "named_files": "named_files",
            "times": "times",
            "durations": "durations",
            "keyring_options": "keyring_options",
            "file_output": "file_output",
            "isolation": "isolation",
            "parallel": "parallel",
            "urls": "urls",
        },
    ),
    "records": (
        "The fields of records, and how they look: as JSON, as lines for people, as streams for programs.",
        {
            "objects": "rendering.objects",
            "elision": "rendering.elision",
            "members": "rendering.members",
            "lines": "rendering.lines",
            "stamps": "rendering.stamps",
            "streams": "rendering.streams",
            "printer": "rendering.printer",
            "fields": "showing.fields",
            "levels": "showing.levels",
            "cursors": "showing.cursors",
            "record_lines": "record_lines",
        },
    ),
    "selecting": (
        "Which records and runs a verb prints, found how, in which order, from where on.",
        {
            "paging": "paging",
            "records": "selection",
            "runs": "run_selection",
            "candidates": "showing.candidates",
            "globs": "showing.globs",
            "grep": "showing.grep",
            "listings": "showing.listings",
            "matches": "showing.matches",
            "options": "showing.options",
            "span": "showing.span",
            "exporting": "exporting",
        },
    ),
    "importing": (
        "Runs that other programs recorded: read strictly, and brought into a tenant whole or not at all.",
        {"entry_json": "entry_json"},
    ),
    "serving": (
        "What our servers have in common, and the tiles that one of them serves.",
        {
            "connections": "connections",
            "listening": "listening",
            "tiles": "tiles",
            "store_tiles": "store_tiles",
            "tile_server": "tile_server",
        },
    ),
    "witnessing": (
        "The witness server: what it remembers, which logs it cosigns for, how it answers over HTTP.",
        {
            "binding": "witness.binding",
            "cosigner": "witness.cosigner",
            "loglist": "witness.loglist",
            "queue": "witness.queue",
            "rates": "witness.rates",
            "server": "witness.server",
            "state": "witness.state",
        },
    ),
    "demo": ("The story of one killed agent.", {"story": "demo_story", "world": "demo_world"}),
    "stories": (
        "What a run's records tell when they are read one after the other, and how a store stands.",
        {"story": "story", "family": "family", "telling": "rendering.telling", "health": "probing"},
    ),
    "monitoring": ("Follow a log in public.", {"monitor": "monitor", "state": "monitor_state"}),
    "offline": (
        "Verify a run from files, without a store.",
        {"proofs": "offline", "files": "offline_files", "heads": "offline_heads", "accepted": "accepted"},
    ),
    "auditing": (
        "What an auditor asks of a store or of a bundle, brings to it, and is told.",
        {"audit": "auditing", "evidence": "desk", "bundles": "bundles", "verdict": "verdict"},
    ),
    "commands.log": (
        "The sub-commands of `log`.",
        {
            "group": "commands.log",
            "adopt": "commands.log_adopt",
            "gather": "commands.log_gather",
            "monitor": "commands.log_monitor",
            "publish": "commands.log_publish",
            "serve": "commands.log_serve",
            "tiles": "commands.log_tiles",
        },
    ),
    "commands.witness": (
        "The sub-commands of `witness`.",
        {
            "group": "commands.witness",
            "client": "commands.witness_client",
            "serve": "commands.witness_serve",
            "state": "commands.witness_state",
        },
    ),
}
TEXT = {  # module names inside tables of verbs
    "cli/main.py": [('("log", ', '("log.group", '), ('("witness", ', '("witness.group", ')],
    "cli/commands/witness/group.py": [('"witness_', '"witness.')],
}
TEST_FOLDERS = {"tests/cli/witness": "tests/cli/witnessing", "tests/cli/showing": "tests/cli/selecting"}
PUBLIC = ("entries", "errors", "requests")  # modules that `sealbook.journal` exports under their own names
PARTS = ("merkle", "indexes", "journal", "cli")


def main() -> int:
    """Move what has not been moved yet."""
    moves = {old: new for old, new in mapping().items() if _file(old).is_file()}
    if not moves:
        print("everything stands in its room already")
        return 0
    tests = dict(_test_moves(moves))
    texts = [path for path in _tracked() if path.suffix in {".py", ".md", ".toml", ".in", ".go", ".js", ""}]
    for path in texts:
        if path.resolve() == Path(__file__).resolve():
            continue
        before = path.read_text(encoding="utf-8")
        after = _rewritten(path, before, moves, tests)
        if path.suffix == ".py":
            after = _split_imports(path, after, moves)
        if after != before:
            path.write_text(after, encoding="utf-8")
    for old, new in moves.items():
        _move(_file(old), _file(new))
    for old_test, new_test in tests.items():
        _move(ROOT / old_test, ROOT / new_test)
    _write_rooms(moves)
    for file, pairs in TEXT.items():
        if (ROOT / file).is_file():
            text = (ROOT / file).read_text(encoding="utf-8")
            for before, after in pairs:
                text = text.replace(before, after)
            (ROOT / file).write_text(text, encoding="utf-8")
    _list_packages()
    subprocess.run(["git", "add", "-A", "."], cwd=ROOT, check=True)
    for command in (["check", "--quiet", "--fix", "--select", "I,F401", "."], ["format", "--quiet", "."]):
        subprocess.run([str(ROOT / ".venv/bin/ruff"), *command], cwd=ROOT, check=False)
    return 0


def mapping() -> dict[str, str]:
    """Where each module was -> where it goes, both dotted and without `sealbook.`"""
    names = {}
    for part, rooms in (("journal", JOURNAL), ("cli", CLI)):
        for room, (_, modules) in rooms.items():
            for new, old in modules.items():
                names[f"{part}.{old}"] = f"{part}.{room}.{new}"
    return names


def _file(module: str) -> Path:
    return ROOT / (module.replace(".", "/") + ".py")


def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file() and not path.is_symlink()]


def _test_moves(moves: dict[str, str]) -> list[tuple[str, str]]:
    """A test module goes with the module that it mirrors."""
    pairs = []
    for old, new in moves.items():
        *folders, name = old.split(".")
        *rooms, new_name = new.split(".")
        here = "/".join(["tests", *folders, f"test_{name}.py"])
        there = "/".join(["tests", *rooms, f"test_{new_name}.py"])
        if (ROOT / here).is_file() and here != there:
            pairs.append((here, there))
    mirrored = dict(pairs)
    for folder, room in TEST_FOLDERS.items():
        for path in sorted((ROOT / folder).glob("*.py")):
            if (here := path.relative_to(ROOT).as_posix()) not in mirrored:
                pairs.append((here, f"{room}/{path.name}"))
    return pairs


def _split_imports(path: Path, text: str, moves: dict[str, str]) -> str:
    """`from sealbook.journal import cursor` becomes `from sealbook.journal.reading import cursors as cursor`."""
    lines = text.split("\n")
    edits = []
    inside = path.relative_to(ROOT).parts[0] == "journal"
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ImportFrom) or not node.module or not node.module.startswith("sealbook."):
            continue
        package = node.module.removeprefix("sealbook.")
        out: list[str] = []
        stay = []
        for alias in node.names:
            new = moves.get(f"{package}.{alias.name}")
            if new is None or (package == "journal" and alias.name in PUBLIC and not inside):
                stay.append(alias.name + (f" as {alias.asname}" if alias.asname else ""))
                continue
            room, _, base = new.rpartition(".")
            local = alias.asname or alias.name
            shown = base if base == local else f"{base} as {local}"
            out.append(f"from sealbook.{room} import {shown}")
        if out:
            indent = " " * node.col_offset
            keep = [f"from {node.module} import {', '.join(stay)}"] if stay else []
            edits.append((node.lineno - 1, node.end_lineno, [indent + line for line in [*keep, *out]]))
    for start, end, new_lines in sorted(edits, reverse=True):
        lines[start:end] = new_lines
    return "\n".join(lines)


def _rewritten(path: Path, text: str, moves: dict[str, str], tests: dict[str, str]) -> str:
    prose = path.suffix == ".md"
    dotted = {f"sealbook.{old}": f"sealbook.{new}" for old, new in moves.items()}
    if prose:
        dotted = {old: new for old, new in dotted.items() if old.rpartition(".")[2] not in PUBLIC}
    paths = {f"{old.replace('.', '/')}.py": f"{new.replace('.', '/')}.py" for old, new in moves.items()}
    for table, pattern in ((dotted, r"(?<![\w.])({})(?![\w])"), (paths | tests, r"(?<![\w/.-])({})(?![\w])")):
        names = "|".join(sorted(map(re.escape, table), key=len, reverse=True))
        if names:
            text = re.sub(pattern.format(names), _replacing(table), text)
    return _quoted_imports(text, moves, separator="\n" if prose else "\\n") if prose or "tests" in path.parts else text


def _quoted_imports(text: str, moves: dict[str, str], separator: str) -> str:
    """The same for programs that stand in a page or in a string, as far as all names of a line have moved."""

    def split(found: re.Match[str]) -> str:
        start, package, names = found[1], found[2], [name.strip() for name in found[3].split(",")]
        moved = [(moves.get(f"{package}.{name}"), name) for name in names]
        if not all(new for new, _ in moved) or (package == "journal" and set(names) & set(PUBLIC)):
            return found[0]
        rooms = [(new.rpartition("."), name) for new, name in moved if new]
        return start + separator.join(
            f"from sealbook.{room} import {base}" + ("" if base == name else f" as {name}")
            for (room, _, base), name in rooms
        )

    start = r"(?m)(^|\")" if separator == "\n" else r'(")'
    return re.sub(start + r"from sealbook\.([\w.]+) import (\w+(?:, \w+)*)(?=$|\\n)", split, text)


def _replacing(table: dict[str, str]) -> Callable[[re.Match[str]], str]:
    return lambda found: table[found[1]]


def _move(old: Path, new: Path) -> None:
    new.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "mv", str(old), str(new)], cwd=ROOT, check=True)


def _write_rooms(moves: dict[str, str]) -> None:
    for part, rooms in (("journal", JOURNAL), ("cli", CLI)):
        for room, (sentence, _) in rooms.items():
            door = ROOT / part / room.replace(".", "/") / "__init__.py"
            if door.parent.is_dir() and not door.exists():
                door.write_text(f'"""{sentence}"""\n', encoding="utf-8")
    for gone in ("cli/rendering", "cli/showing", "cli/witness"):
        door = ROOT / gone / "__init__.py"
        if door.is_file() and len(list(door.parent.glob("*.py"))) == 1:
            subprocess.run(["git", "rm", "-qf", str(door)], cwd=ROOT, check=True)


def _list_packages() -> None:
    found = sorted(
        (*door.parent.relative_to(ROOT).parts,) for part in PARTS for door in (ROOT / part).rglob("__init__.py")
    )
    ordered = sorted(found, key=lambda parts: (PARTS.index(parts[0]), parts))
    listed = "".join(f'    "sealbook.{".".join(parts)}",\n' for parts in ordered)
    path = ROOT / "pyproject.toml"
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"(?m)^packages = \[\n(.*\n)*?\]", f"packages = [\n{listed}]", text)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
