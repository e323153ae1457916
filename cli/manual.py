"""The manual's pages, in roff (man(7)), made of the commands themselves: one for the program, one for each verb.

What `--help` says, a page says; in addition the exit codes and, on the program's own page, the environment.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from sealbook.cli import docs
from sealbook.cli.ground import exit_codes
from sealbook.cli.ground.options import Verb, VerbGroup

SECTION = 1
ENVIRONMENT = {  # variables that are no option's
    "JOURNAL_PAGER": "The pager of listings; empty, or cat, for none. It goes before PAGER.",
    "PAGER": "The pager where JOURNAL_PAGER is not set.",
    "NO_COLOR": "If set and not empty: no colours.",
    "FORCE_COLOR": "If set and not empty: colours, on whatever is written to.",
}


def name_of(path: str) -> str:
    """The page's name: `sealbook log head` is in `sealbook-log-head`."""
    return path.replace(" ", "-")


def pages(version: str) -> Iterator[tuple[str, str]]:
    """(name, roff) of every page, the program's first."""
    known = [(path, command) for path, command, _ in docs.commands()]
    for path, command in known:
        yield name_of(path), page(path, command, version, [other for other, _ in known])


def page(path: str, command: click.Command, version: str, known: list[str]) -> str:
    """One page. `known` are the paths of all commands, of which the page refers to those around it."""
    context = click.Context(command, info_name=path)
    name = name_of(path)
    lines = [
        f'.TH "{_escaped(name.upper())}" "{SECTION}" "" "sealbook {_escaped(version)}" "Sealbook"',
        ".SH NAME",
        f"{_escaped(name)} \\- {_escaped(command.get_short_help_str(limit=200).removesuffix('.'))}",
        ".SH SYNOPSIS",
        f".B {_escaped(path)}",
        _text(" ".join(command.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
        *_paragraphs(command.help or ""),
    ]
    options = [record for param in command.get_params(context) if (record := param.get_help_record(context))]
    if options:
        lines += [".SH OPTIONS", *_listed(options)]
    if isinstance(command, click.Group):
        below = [(each, command.get_command(context, each)) for each in command.list_commands(context)]
        items = [(each, verb.get_short_help_str(limit=200)) for each, verb in below if verb is not None]
        lines += [".SH COMMANDS", *_listed(items)]
    lines += [".SH EXIT STATUS", *_listed(_codes())]
    if isinstance(command, click.Group) and " " not in path:
        lines += [".SH ENVIRONMENT", *_listed(_environment(command))]
    examples = command.examples if isinstance(command, Verb | VerbGroup) else ()
    if examples:
        lines += [".SH EXAMPLES", ".nf", *(_text(example) for example in examples), ".fi"]
    around = [other for other in known if _is_around(path, other)]
    lines += [".SH SEE ALSO", ",\n".join(f".BR {_escaped(name_of(other))} ({SECTION})" for other in around)]
    return "\n".join(lines) + "\n"


def _is_around(path: str, other: str) -> bool:
    """Whether the other command is right above or right below."""
    return path.rpartition(" ")[0] == other or other.rpartition(" ")[0] == path


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(inspect.cleandoc(text).split("\n\n")):
        if number:
            yield ".PP"
        if paragraph.startswith("\b"):
            yield ".nf"
            yield from (_text(line) for line in paragraph.splitlines()[1:])
            yield ".fi"
        else:
            yield _text(" ".join(paragraph.split()))


def _listed(items: list[tuple[str, str]]) -> Iterator[str]:
    for term, text in items:
        yield ".TP"
        yield f"\\fB{_escaped(term)}\\fR"
        yield _text(" ".join(text.split())) or "\\&"


def _codes() -> list[tuple[str, str]]:
    """The table of the docstring that defines the codes."""
    assert exit_codes.__doc__ is not None
    rows = [line.strip("|").split("|") for line in exit_codes.__doc__.splitlines() if line.startswith("|")]
    return [(code.strip(), meaning.strip().replace("`", "")) for code, meaning in rows[2:]]


def _environment(program: click.Command) -> list[tuple[str, str]]:
    stand_ins = [
        (param.envvar, f"Stands in for {max(param.opts, key=len)}.")
        for param in program.params
        if isinstance(param.envvar, str)
    ]
    keys = [("SEALBOOK_KEYS", "The folder of keys, for verbs that sign or list them.")]
    return [*stand_ins, *keys, *ENVIRONMENT.items()]


def _escaped(text: str) -> str:
    """The text with no character that roff would take for its own."""
    return (
        text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("`", "\\(ga").replace("'", "\\(aq")
    )


def _text(text: str) -> str:
    """A line of text: no request, though it begin with a point."""
    escaped = _escaped(text)
    return f"\\&{escaped}" if escaped.startswith(".") else escaped
