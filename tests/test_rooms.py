"""Hold the house to its rule: rooms of bounded size under a sentence each, no circles, and the page that draws them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from project import PARTS, ROOT, module_name, sources, tree_of

FILES_MAX = 18  # of a folder: as many as one glance takes in
LINES_MAX = 600  # of a file
LINES_OF_SOURCE_MAX = 44_710  # lower it whenever the source has shrunk
VERBS = "cli/commands"  # one file for each verb, however many there are

pytestmark = pytest.mark.slow  # sources are the same for every interpreter


def test_no_folder_holds_more_files_than_one_reads_at_a_glance() -> None:
    counts: dict[str, int] = {}
    for source in sources():
        folder = source.parent.relative_to(ROOT).as_posix()
        counts[folder] = counts.get(folder, 0) + (source.name != "__init__.py")
    assert {folder: count for folder, count in counts.items() if count > FILES_MAX and folder != VERBS} == {}


def test_no_file_is_longer_than_one_reads_at_a_time() -> None:
    lengths = {source.relative_to(ROOT).as_posix(): _lines(source) for source in sources()}
    assert {file: lines for file, lines in lengths.items() if lines > LINES_MAX} == {}


def test_the_source_stays_within_its_length() -> None:
    assert sum(map(_lines, sources())) <= LINES_OF_SOURCE_MAX


def test_the_places_that_contributors_are_sent_to_are_there() -> None:
    """Each row of CONTRIBUTING's table "where is": its files stand, and each name is in a file of its row."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = re.search(r"^\| where is .*?\n\n", text, re.M | re.S)
    assert table is not None
    rows = [line.split("|")[2] for line in table[0].splitlines()[2:] if line]
    assert len(rows) >= 10
    for row in rows:
        folder, places, names = ROOT, [], []
        for word in re.findall(r"`([^`]+)`", row):
            if "/" in word:
                place = ROOT / word
                folder = place if word.endswith("/") else place.parent
                places.append(place)
            elif "." in word:
                places.append(folder / word)
            else:
                names.append(word)
        assert [place for place in places if not place.exists()] == [], row
        files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*.py"))]
        read = "\n".join(file.read_text(encoding="utf-8") for file in files)
        assert [name for name in names if not re.search(rf"\b{name}\b", read)] == [], row


def test_no_two_files_import_each_other_around_a_circle() -> None:
    """At run time, inside functions and for types alike: whoever reads a file has read what it rests on."""
    known = {module_name(source) for source in sources()}
    imports = {module_name(source): _imports(source, known) for source in sources()}
    while free := [module for module, names in imports.items() if not names]:
        for module in free:
            del imports[module]
        imports = {module: names - set(free) for module, names in imports.items()}
    assert {module: sorted(names) for module, names in imports.items() if _returns(module, imports)} == {}


def test_the_page_draws_every_room_with_the_sentence_over_its_door() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawn = dict(re.findall(r"^((?:merkle|indexes|journal|cli)/(?:[\w/]+/)?) +(.+)$", page, flags=re.MULTILINE))
    doors = [source for source in sources() if source.name == "__init__.py" and source.parent.parent != ROOT]
    assert drawn.keys() - set(PARTS) >= {f"{door.parent.relative_to(ROOT).as_posix()}/" for door in doors}
    rooms = {f"{door.parent.relative_to(ROOT).as_posix()}/": _sentence(door) for door in doors}
    assert {room: said for room, said in drawn.items() if room.count("/") > 1 and rooms.get(room) != said} == {}


def _lines(source: Path) -> int:
    return source.read_text(encoding="utf-8").count("\n")


def _sentence(door: Path) -> str:
    return (ast.get_docstring(tree_of(door)) or "").split("\n\n")[0].replace("\n", " ")


def _imports(source: Path, known: set[str]) -> set[str]:
    """The modules of ours that the source imports: a package for a name of its own, not for a module within it."""
    names: set[str] = set()
    for node in ast.walk(tree_of(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {module if module in known else node.module for module in modules}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return (names & known) - {module_name(source)}


def _returns(module: str, imports: dict[str, set[str]]) -> bool:
    """Whether one comes back to the module by following imports from it."""
    seen: set[str] = set()
    ahead = set(imports[module])
    while ahead:
        seen |= ahead
        ahead = {name for found in ahead for name in imports[found]} - seen
    return module in seen
