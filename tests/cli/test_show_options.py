"""`show` with the habits of journalctl: counts, matches, levels, patterns, times, cursors, listings of values."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from sealbook.cli.commands import show
from sealbook.cli.selecting.options import Lines
from sealbook.journal import Journal, Moment, entries

Call = Callable[..., Result]


def shown(call: Call, *args: str, env: dict[str, str] | None = None) -> list[int]:
    """The arrivals of the records that `show` prints with these options."""
    result = call("show", "-o", "json", *args, env=env)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line)["arrival"] for line in result.stdout.splitlines()]


def test_how_many_and_from_which_end(call: Call) -> None:
    assert shown(call, "-n") == list(range(6, 16))
    assert shown(call, "-n", "-r") == list(range(15, 5, -1))
    assert shown(call, "-n", "+3") == [1, 2, 3]
    assert shown(call, "-n", "+3", "-r") == [3, 2, 1]
    assert shown(call, "-n3") == [13, 14, 15]
    assert shown(call, "-e") == list(range(1, 16))
    assert shown(call, "-e", "-n", "2") == [14, 15]
    for bad in ("x", "+", "+x", "++1", "RUN=order-42", "-1"):
        assert call("show", "-n", bad).exit_code == 2
    assert call("show", "-n", str(2**31)).exit_code == 2


def test_following_begins_with_the_last_ten_unless_a_beginning_or_a_number_is_given() -> None:
    def count(amount: Lines | None = None, *, begun: bool) -> int | None:
        return show._order(amount, reverse=False, follow=True, pager_end=False, begun=begun).count

    assert count(begun=False) == 10
    assert count(begun=True) is None
    assert count(Lines(3), begun=True) == 3
    assert count(Lines(None), begun=False) is None


def test_matches_levels_runs_kinds_and_patterns_combine(call: Call) -> None:
    assert shown(call, "RUN=order-42", "KIND=Note", "+", "CASE=case-7", "SEQ=1") == [1, 9, 14]
    assert shown(call, "-u", "order-4[26]", "-u", "order-44", "-t", "Run*") == [1, 7, 8, 11, 12]
    assert shown(call, "-u", "order-42", "-t", "Effect*", "-p", "warning") == [4]
    assert shown(call, "-p", "3") == [12]
    assert shown(call, "-p", "notice..notice") == [8, 10]
    assert shown(call, "OUTCOME=completed", "SOURCE=shop", "-r") == [10, 9]
    assert shown(call, "-g", "unclear", "-u", "order-*") == [14]
    assert shown(call, "--case", "case-7", "CASE=case-8") == []


def test_a_pattern_that_is_found_nowhere_is_exit_code_1_and_an_empty_match_0(call: Call) -> None:
    found = call("show", "-g", "no such words")
    assert (found.exit_code, found.stdout, found.stderr) == (1, "", "")
    assert call("show", "-g", "UNCLEAR").exit_code == 1
    assert call("show", "-g", "UNCLEAR", "--ignore-case").exit_code == 0
    assert call("show", "-g", "unclear", "KIND=Nothing").exit_code == 1
    assert call("show", "RUN=nobody").exit_code == 0
    assert call("show", "-n", "0").exit_code == 0


def test_words_that_cannot_be_understood_are_usage_errors_in_one_line(call: Call) -> None:
    for args in (
        ["foo"],
        ["FOO=1"],
        ["RUN=a", "+"],
        ["-p", "error"],
        ["-g", "("],
        ["-o", "xml"],
        ["--output-fields", ""],
        ["-F", "nothing"],
        ["-F", "run", "CASE=case-7"],
        ["-F", "run", "-u", "order-42"],
        ["-F", "kind", "-S", "yesterday"],
        ["-F", "kind", "-g", "x"],
        ["-F", "kind", "-n", "3"],
        ["-N", "-t", "Note"],
        ["-S", "soon"],
        ["-S", "2026-02-30"],
        ["-f", "-r"],
        ["-f", "-U", "yesterday"],
        ["-S", "2026-11-29", "-U", "2026-11-28"],
        ["-U", "2026-11-28", "-S", "2026-11-29"],
        ["SEQ=abc"],
        ["EPOCH=x"],
        ["ATTEMPT="],
        ["ARRIVAL=-1"],
        ["SEQ=01"],
        ["AT=yesterday"],
        ["HASH=ab"],
        ["EFFECT=zz"],
        ["KIND=lower"],
        ["TENANT=a/b"],
        ["OUTCOME=UPPER"],
        ["OWNER="],
        ["-c", "x", "--cursor-file", "y"],
    ):
        result = call("show", *args)
        assert (result.exit_code, result.stdout) == (2, ""), args
        assert result.stderr.count("\n") == 1


# --- times --------------------------------------------------------------------------------------------------------


def test_times_are_those_of_systemd_in_utc_or_in_the_zone_that_is_named(call: Call) -> None:
    assert shown(call, "-S", "2026-11-29 08:00:08") == [13, 14, 15]
    assert shown(call, "-S", "Sun 2026-11-29 08:00:08 UTC", "-U", "@1795939208") == [13]
    assert shown(call, "-S", "2026-11-29 09:00:08 Europe/Berlin") == [13, 14, 15]
    assert shown(call, "-U", "26-11-29") == []
    assert shown(call, "-S", "2026-11-29T13:30:08+05:30") == [13, 14, 15]
    assert shown(call, "-S", "1000 years ago") == shown(call) == shown(call, "-U", "+1000y")
    zone = {"TZ": "Europe/Berlin"}
    assert shown(call, "--local", "-S", "2026-11-29 09:00:08", env=zone) == [13, 14, 15]
    assert shown(call, "-S", "2026-11-29 09:00:08", "--local", env=zone) == [13, 14, 15]
    assert shown(call, "-S", "2026-11-29 09:00:08", env=zone) == []


def test_91_a_skipped_time_is_refused_and_a_time_shown_twice_covers_both(store: Path, call: Call) -> None:
    result = call("show", "-S", "2026-03-29T02:30 Europe/Berlin")
    assert result.exit_code == 2
    assert "no clock of Europe/Berlin shows 2026-03-29 02:30:00: it was set forward over it" in result.stderr
    first, hour = 1_792_888_200_000, 3_600_000  # 2026-10-25T00:30:00Z, shown as 02:30, as is an hour later
    for at in (first, first + hour):
        with Journal.open(store, clock=lambda at=at: Moment(at, 1, bytes(16))) as journal:  # type: ignore[misc]
            journal.tenant("tz").append("r", [entries.note("x")], epoch=1)
    twice = "2026-10-25 02:30 Europe/Berlin"
    found = call("--tenant", "tz", "show", "-o", "json", "-S", twice, "-U", twice)
    assert len(found.stdout.splitlines()) == 2


def test_89_a_record_from_2099_breaks_neither_since_nor_what_follows(store: Path, call: Call) -> None:
    for at in (4_080_000_000_000, 1_795_939_300_000, 1_795_939_301_000):
        with Journal.open(store, clock=lambda at=at: Moment(at, 1, bytes(16))) as journal:  # type: ignore[misc]
            journal.tenant().append("order-48", [entries.note("x")], epoch=1)
    assert shown(call, "-S", "2026-11-29 08:01") == [16, 17, 18]
    assert shown(call, "-S", "2026-11-29 08:01", "-U", "2026-11-30") == [17, 18]
    assert shown(call, "-S", "2026-11-29 08:01", "--scan") == [16, 17, 18]
    assert shown(call, "-S", "2050-01-01") == [16]
    lines = call("show", "-n", "3").stdout.splitlines()
    assert ["[in the future]" in line for line in lines] == [True, False, False]


# --- cursors ------------------------------------------------------------------------------------------------------


def cursor_of(call: Call, *args: str) -> str:
    *_, line = call("show", "--show-cursor", *args).stdout.splitlines()
    assert line.startswith("-- cursor: ")
    return str(line.removeprefix("-- cursor: "))


def test_a_cursor_goes_on_where_it_stopped_whatever_is_asked_for(call: Call) -> None:
    cursor = cursor_of(call, "-n", "+12")
    assert shown(call, "-c", cursor) == [12, 13, 14, 15]
    assert shown(call, "--after-cursor", cursor) == [13, 14, 15]
    assert shown(call, "--after-cursor", cursor, "RUN=order-42") == [14]
    assert shown(call, "--after-cursor", cursor, "-u", "order-*", "-r") == [14, 13]
    assert shown(call, "--after-cursor", cursor, "-n", "1") == [15]
    assert shown(call, "--after-cursor", cursor, "-n", "+1") == [13]
    assert call("show", "--show-cursor", "RUN=nobody").stdout == ""
    result = call("show", "-o", "json", "--show-cursor", "-n", "1")
    assert len(result.stdout.splitlines()) == 1
    assert result.stderr.startswith("sealbook: -- cursor: t=default;a=15;")


def test_a_cursor_file_is_read_gone_on_from_and_written(store: Path, call: Call, tmp_path: Path) -> None:
    file = str(tmp_path / "read-so-far")
    assert shown(call, "--cursor-file", file, "-n", "+9") == list(range(1, 10))
    assert shown(call, "--cursor-file", file, "-n", "+4") == [10, 11, 12, 13]
    assert shown(call, "--cursor-file", file) == [14, 15]
    assert shown(call, "--cursor-file", file) == []
    with Journal.open(store) as journal:
        journal.tenant().append("order-42", [entries.note("x")], epoch=1)
    assert shown(call, "--cursor-file", file) == [16]


def test_a_history_that_is_not_the_one_of_the_cursor_is_an_integrity_failure(
    call: Call, store: Path, tmp_path: Path
) -> None:
    file = tmp_path / "read-so-far"
    with Journal.open(store) as journal:
        journal.tenant("other").append("r", [entries.note("one"), entries.note("two")], epoch=1)
    assert len(call("--tenant", "other", "show", "--cursor-file", str(file)).stdout.splitlines()) == 2
    kept = file.read_text()
    with Journal.open(tmp_path / "again", create=True) as journal:
        journal.tenant("other").append("r", [entries.note("one"), entries.note("three")], epoch=1)
    result = call("-D", str(tmp_path / "again"), "--tenant", "other", "show", "--cursor-file", str(file))
    assert result.exit_code == 3
    assert "the history was rewritten" in result.stderr
    assert file.read_text() == kept
    gone = kept.strip().replace("a=2;", "a=3;")
    assert "cut short" in call("--tenant", "other", "show", "-c", gone).stderr
    assert call("show", "-c", kept.strip()).exit_code == 2
    assert call("show", "-c", "nonsense").exit_code == 2


def test_a_cursor_file_that_cannot_be_read_or_kept_is_met_before_anything_is_printed(
    call: Call, tmp_path: Path
) -> None:
    file = tmp_path / "read-so-far"
    file.write_text("nonsense")
    result = call("show", "--cursor-file", str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    assert str(file) in result.stderr
    nowhere = call("show", "--cursor-file", str(tmp_path / "none" / "read-so-far"))
    assert (nowhere.exit_code, nowhere.stdout) == (6, "")


def test_a_cursor_file_resumes_behind_the_newest_record_in_reverse_order_too(call: Call, tmp_path: Path) -> None:
    file = str(tmp_path / "read-so-far")
    assert shown(call, "--cursor-file", file, "-r")[-1] == 1
    assert shown(call, "--cursor-file", file) == []


def test_a_cursor_file_is_its_owners_alone_and_keeps_the_mode_it_was_given(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "read-so-far"
    call("show", "-n", "+1", "--cursor-file", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    call("show", "-n", "+1", "--cursor-file", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


# --- listings -----------------------------------------------------------------------------------------------------


def test_the_values_of_a_field_and_the_fields_are_listed(call: Call) -> None:
    assert call("show", "-F", "run").stdout.splitlines() == [
        *(f"order-{number}" for number in range(42, 48)),
        "~tenant",
    ]
    assert call("show", "--field", "OUTCOME").stdout == "completed\nfailed\n"
    assert call("show", "-F", "source", "-o", "json").stdout.splitlines() == [
        '{"field": "SOURCE", "value": "mail"}',
        '{"field": "SOURCE", "value": "shop"}',
    ]
    names = call("show", "-N").stdout.splitlines()
    assert {"RUN", "CASE", "KIND", "EFFECT", "OUTCOME", "SOURCE", "EPOCH", "OWNER", "KEYID"} <= set(names)


def test_a_listed_value_can_move_no_terminal(store: Path, call: Call) -> None:
    with Journal.open(store) as journal:
        journal.tenant().append("r\u202e", [entries.entry("Note", {"x": "\x1b[2J"})], epoch=1)
    assert call("show", "-F", "run").stdout.splitlines()[-2:] == ["r\\u202e", "~tenant"]
    assert call("show", "-F", "data.x").stdout == "\\x1b[2J\n"


def test_a_bracket_that_nothing_closes_is_part_of_a_name_and_no_glob(call: Call) -> None:
    assert call("show", "-u", "[").exit_code == 4
    assert call("show", "-u", "order-[4").exit_code == 4
    assert call("show", "-u", "order-[0-9]2").stdout.count("order-42") >= 5
    assert call("show", "-t", "[").exit_code == 2


def test_a_slip_names_the_option_that_it_is_in(call: Call) -> None:
    assert "'-p' / '--priority'" in call("show", "-p", "9").stderr
    unknown = call("show", "--local", env={"TZ": "Nowhere/None"})
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    assert "--local: TZ is 'Nowhere/None'" in unknown.stderr
    assert call("show", "--local", "-S", "yesterday", env={"TZ": "Nowhere/None"}).exit_code == 2
    assert call("show", env={"TZ": "Nowhere/None"}).exit_code == 0


def test_what_is_of_the_whole_store_refuses_a_tenant(call: Call) -> None:
    for verb in (("info",), ("export", "--all-tenants", "--to", "-")):
        result = call("--tenant", "acme", *verb)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "--tenant" in result.stderr
    assert "None" not in call("info").stdout
