"""`show`, `case` and `run` print records."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from tampering import change, engine_of, record_place

from sealbook.cli.commands import show
from sealbook.cli.commands.show import Order, ShowProgress
from sealbook.cli.ground.exit_codes import INTEGRITY, code_of
from sealbook.cli.records.printer import Look, Printer
from sealbook.cli.screen.output import Output
from sealbook.cli.selecting.selection import Selection
from sealbook.journal import Corrupt, Journal, Moment, Tenant, entries

Call = Callable[..., Result]


def objects(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def shown(call: Call, *args: str) -> list[int]:
    """The arrivals of the records that `show` prints with these options."""
    return [record["arrival"] for record in objects(call("show", "-o", "json", *args))]


def test_records_are_printed_in_the_order_of_their_arrival_with_the_operators_acts(call: Call) -> None:
    records = objects(call("show", "-o", "json"))
    assert [record["arrival"] for record in records] == list(range(1, 16))
    assert records[-1]["run"] == "~tenant"
    assert {record["tenant"] for record in records} == {"default"}


def test_the_newest_records_are_printed_oldest_first(call: Call) -> None:
    assert shown(call, "-n", "3") == [13, 14, 15]
    assert shown(call, "-n", "all") == list(range(1, 16))
    assert shown(call, "-n", "0") == []
    assert shown(call, "-n", "2147483647") == list(range(1, 16))


def test_reverse_prints_the_newest_first(call: Call) -> None:
    assert shown(call, "-r") == list(range(15, 0, -1))
    assert shown(call, "-r", "-n", "2") == [15, 14]


def test_filters_combine(call: Call) -> None:
    assert shown(call, "--run", "order-42") == [1, 2, 3, 4, 14]
    assert shown(call, "--case", "case-7") == [1, 9, 14]
    assert shown(call, "--case", "case-7", "--run", "order-42", "-n", "1") == [14]


def test_kinds_are_any_of_those_named(call: Call) -> None:
    kinds = [record["kind"] for record in objects(call("show", "-o", "json", "--kind", "EffectDone", "--kind", "Note"))]
    assert kinds == ["EffectDone", "Note"]


def test_every_instant_that_is_printed_is_taken_by_since_and_until_inclusively(call: Call) -> None:
    records = objects(call("show", "-o", "json"))
    for record in records:
        same = shown(call, "--since", record["at"], "--until", record["at"])
        assert same == [other["arrival"] for other in records if other["at"] == record["at"]]
    runs = objects(call("runs", "-o", "json"))
    instants = {run[name] for run in runs for name in ("waiting_until", "admitted_at", "updated_at", "expires_at")}
    for instant in instants - {None}:
        assert call("show", "--since", instant).exit_code == 0
    words = [word for line in call("runs").stdout.splitlines()[1:] for word in line.split() if word[:2] == "20"]
    assert words
    for word in words:
        assert call("show", "--since", word, "--until", word).exit_code == 0


def test_an_instant_may_have_an_offset_and_one_outside_rfc_3339_is_seconds(call: Call) -> None:
    assert shown(call, "--since", "2026-11-29T09:00:00+01:00") == list(range(1, 16))
    assert shown(call, "--since", "@253402300800") == []


def test_an_empty_listing_is_no_failure(call: Call) -> None:
    for args in (
        ("--run", "nob*"),
        ("RUN=nobody",),
        ("CASE=nothing",),
        ("--kind", "Nothing"),
        ("--until", "1999-01-01T00:00:00Z"),
    ):
        result = call("show", *args)
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (("show", "-u", "nobody"), "run 'nobody'"),
        (("show", "-u", "order-*", "-u", "nobody"), "run 'nobody'"),
        (("show", "--case", "nothing"), "case 'nothing'"),
        (("case", "nothing"), "case 'nothing'"),
        (("effects", "nobody"), "run 'nobody'"),
        (("run", "nobody"), "run 'nobody'"),
        (("verify", "nobody"), "run 'nobody'"),
        (("runs", "--case", "nothing"), "case 'nothing'"),
        (("export", "--run", "nobody", "--to", "never"), "run 'nobody'"),
        (("export", "--case", "nothing", "--to", "never"), "case 'nothing'"),
        (("export", "--case", "nothing", "--format", "jsonl", "--to", "never"), "case 'nothing'"),
        (("--tenant", "nobody", "show"), "tenant 'nobody'"),
        (("--tenant", "nobody", "show", "-F", "run"), "tenant 'nobody'"),
        (("--tenant", "nobody", "runs"), "tenant 'nobody'"),
        (("--tenant", "nobody", "effects"), "tenant 'nobody'"),
        (("--tenant", "nobody", "export", "--to", "never"), "tenant 'nobody'"),
    ],
)
def test_an_exact_name_that_is_not_there_is_not_found(call: Call, args: tuple[str, ...], what: str) -> None:
    result = call(*args)
    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr.startswith(f"sealbook: no {what}")
    assert not Path("never").exists()


def test_the_default_tenant_of_a_new_store_is_empty_and_not_missing(call: Call, tmp_path: Path) -> None:
    new = ("-D", str(tmp_path / "new"))
    call(*new, "init")
    for args in (("show",), ("runs",), ("effects",), ("show", "-F", "run")):
        result = call(*new, *args)
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_another_tenant_is_another_history(call: Call) -> None:
    assert [record["run"] for record in objects(call("--tenant", "acme", "show", "-o", "json"))] == ["a"]


def test_lines_are_aligned_and_plain_where_nobody_looks(call: Call) -> None:
    lines = call("show", "--run", "order-42").stdout.splitlines()
    assert len(lines) == 5
    assert {line.index("order-42") for line in lines} == {26}
    kinds = ["RunAdmitted", "EffectStarted", "EffectDone", "EffectStarted", "Note"]
    assert {line.index(kind) for line, kind in zip(lines, kinds, strict=True)} == {39}
    assert "\x1b" not in "".join(lines)
    assert "charge {" in lines[3]


def test_colour_can_be_asked_for_and_refused(call: Call) -> None:
    assert "\x1b[33m" in call("--color", "always", "show", "--kind", "RunSuspended").stdout
    assert "\x1b[31m" in call("--color", "always", "show", "--run", "order-46").stdout
    assert "\x1b" in call("show", env={"FORCE_COLOR": "1"}).stdout
    assert "\x1b" not in call("show", env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stdout
    assert "\x1b" not in call("--color", "never", "show", env={"FORCE_COLOR": "1"}).stdout
    assert "\x1b" not in call("--color", "always", "show", "-o", "json").stdout


def test_cat_prints_the_data_alone(call: Call) -> None:
    assert call("show", "--run", "order-42", "-n", "1", "-o", "cat").stdout == '{"text": "still unclear"}\n'


def test_an_entry_from_the_future_is_marked_and_floods_nothing(store: Path, call: Call) -> None:
    late = Moment(wall_ms=4_102_444_800_000, boot_ms=1, boot_id=bytes(16))  # 2100
    with Journal.open(store, clock=lambda: late) as journal:
        journal.tenant().append("order-48", [entries.note("from the future")], epoch=1)
    lines = call("show", "-n", "2").stdout.splitlines()
    assert ["[in the future]" in line for line in lines] == [False, True]
    assert shown(call, "--since", "2099-01-01T00:00:00Z") == [16]


def test_names_and_data_of_strangers_cannot_move_the_terminal(store: Path, call: Call) -> None:
    with Journal.open(store) as journal:
        evil = entries.entry("Note", {"text": "\x1b[2Jgone\r\n\u202eevil", "\x1b]0;x\x07": ["\x9b"]}, case="c\u202e")
        journal.tenant().append("r\u202eevil", [evil], epoch=1)
    for args in (["show"], ["show", "-o", "json"], ["show", "-o", "cat"], ["runs"], ["run", "r\u202eevil"]):
        printed = call(*args).stdout
        assert all(line.isprintable() for line in printed.splitlines())
        assert "\\u202e" in printed
    missing = call("run", "\x1b[2J")
    assert missing.exit_code == 2
    assert all(line.isprintable() for line in missing.stderr.splitlines())


def test_the_story_of_a_run_has_its_standing_effects_and_records(call: Call) -> None:
    printed = call("run", "order-42").stdout
    for part in ("order-42 of tenant default", "case-7", "free, epoch 1", "in doubt", "reserve", "still unclear"):
        assert part in printed
    assert "ada (asserted): the customer called" in call("run", "order-43").stdout
    assert "waiting until 2030-01-01T00:00:00.000001Z" in call("run", "order-43").stdout
    assert "seal of record 2 at log position 0" in call("run", "order-45").stdout
    assert "worker-1 under epoch 1 until 2035" in call("run", "order-47").stdout


def test_the_story_as_json_is_the_run_and_then_its_records(call: Call) -> None:
    run, *records = objects(call("run", "order-42", "-o", "json"))
    assert run["effects"] == {"started": 2, "done": 1, "failed": 0, "in_doubt": 1}
    assert [effect["name"] for effect in run["effect_list"]] == ["reserve", "charge"]
    assert [record["seq"] for record in records] == [1, 2, 3, 4, 5]
    sealed, *_ = objects(call("run", "order-45", "-o", "json"))
    assert sealed["leaf"]["leaf_kind"] == "seal"
    asked, *_ = objects(call("run", "order-43", "-o", "json"))
    assert asked["cancellation"]["actor"] == "ada"


def test_an_unknown_run_is_not_found(call: Call) -> None:
    result = call("run", "nobody")
    assert (result.exit_code, result.stderr) == (4, "sealbook: no run 'nobody': `sealbook runs` lists what there is\n")


def test_the_stores_own_run_is_read_by_name(call: Call) -> None:
    assert "CancelRequested" in call("run", "~tenant").stdout


def test_a_case_is_read_across_runs(call: Call) -> None:
    assert [record["run"] for record in objects(call("case", "case-7", "-o", "json"))] == [
        *("order-42", "order-45", "order-42"),
    ]
    assert [record["arrival"] for record in objects(call("case", "case-7", "-r", "-n", "2", "-o", "json"))] == [14, 9]
    assert [record["seq"] for record in objects(call("case", "case-7", "KIND=Note", "-o", "json"))] == [5]
    assert call("case", "case-7", "-g", "nothing of it").exit_code == 1


@pytest.mark.parametrize(
    "args",
    [
        ("runs", "--limit", "-1"),
        ("show", "-n", str(2**31)),
        ("show", "--run", ""),
        ("show", "--run", "x" * 600),
        ("show", "--run", "e\u0301"),
        ("show", "--run", "a\x07b"),
        ("show", "--case", "\n"),
        ("show", "--kind", "lower"),
        ("runs", "--limit", "-5"),
        ("runs", "--outcome", "UPPER"),
        ("runs", "--source", "s" * 257),
        ("case", ""),
        ("effects", "x" * 129),
        ("--tenant", "a/b", "runs"),
        ("--tenant", "", "runs"),
        ("--origin", "a\nb", "log", "head"),
        ("show", "RUN="),
        ("show", "SEQ=abc"),
        ("lease", "acquire", "order-48", "--owner", "a", "--ttl", "0"),
        ("append", "", "--epoch", "1", '{"kind": "Note"}'),
        ("cancel", "order-42", "--actor", " ", "--reason", "x"),
    ],
)
def test_a_bad_name_or_number_is_a_usage_error_that_names_it_in_one_line(call: Call, args: tuple[str, ...]) -> None:
    result = call(*args)
    assert result.exit_code == 2
    assert "nothing was written" not in result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("sealbook: ")
    assert result.stderr.count("\n") == 1
    assert result.stderr[:-1].isprintable()


# --- following ------------------------------------------------------------------------------------------------------


class Steps(Printer):
    """Prints into memory, and does the next thing instead of waiting; after the last one it is interrupted."""

    def __init__(self, *steps: Callable[[], Any]) -> None:
        self.stream = io.StringIO()
        super().__init__(Output(self.stream, colored=False, terminal=False), Look("json"))
        self.steps = list(steps)
        self.printed: list[list[int]] = []

    def wait(self, seconds: float) -> None:
        assert seconds <= 0.05
        lines = self.stream.getvalue().splitlines()
        self.stream.truncate(0)
        self.stream.seek(0)
        self.printed.append([json.loads(line)["arrival"] for line in lines])
        if not self.steps:
            raise KeyboardInterrupt
        self.steps.pop(0)()


def followed(tenant: Tenant, selection: Selection, count: int | None, *steps: Callable[[], Any]) -> list[list[int]]:
    """The arrivals that were printed before each wait, until the interruption."""
    printer = Steps(*steps)
    with pytest.raises(KeyboardInterrupt):
        show._follow(tenant, selection, Order(count, follow=True), printer, ShowProgress(None))
    return printer.printed


def note(tenant: Tenant, run: str, *texts: str, case: str | None = None) -> Callable[[], object]:
    return lambda: tenant.append(run, [entries.note(text, case=case) for text in texts], epoch=1)


def test_following_prints_the_last_ones_and_then_what_comes_once_and_in_order() -> None:
    acme = Journal.in_memory().tenant("acme")
    note(acme, "a", *"12345")()
    steps = (note(acme, "b", "6"), lambda: None, note(acme, "a", *["x"] * 250))
    assert followed(acme, Selection(), 2, *steps) == [[4, 5], [6], [], list(range(7, 257))]
    assert followed(acme, Selection(), 0, note(acme, "b", "257")) == [[], [257]]
    assert followed(acme, Selection(), None)[0] == list(range(1, 258))


def test_filters_hold_for_what_comes_too() -> None:
    for selection, expected in (
        (Selection(run="a"), [[1], [2], []]),
        (Selection(case="k"), [[1], [], [3]]),
        (Selection(run="b", case="k"), [[], [], [3]]),
        (Selection(kinds=frozenset({"Other"})), [[], [], []]),
    ):
        acme = Journal.in_memory().tenant("acme")
        note(acme, "a", "1", case="k")()
        assert followed(acme, selection, 10, note(acme, "a", "2"), note(acme, "b", "3", case="k")) == expected


def test_what_comes_while_the_last_ones_are_printed_is_printed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    acme = Journal.in_memory().tenant("acme")
    note(acme, "a", "1", "2")()
    selected = show._selected

    def late(*args: Any) -> Any:
        note(acme, "a", "3")()
        return selected(*args)

    monkeypatch.setattr(show, "_selected", late)
    assert followed(acme, Selection(), 10) == [[1, 2, 3]]


def test_a_history_that_is_rewritten_meanwhile_ends_it_as_an_integrity_failure() -> None:
    journal = Journal.in_memory()
    acme = journal.tenant("acme")
    note(acme, "a", "1")()

    def rewrite() -> None:
        change(engine_of(journal), {record_place(engine_of(journal), "acme", "a", 1): b"rubbish"})

    printer = Steps(rewrite)
    with pytest.raises(Corrupt) as found:
        show._follow(acme, Selection(), Order(10, follow=True), printer, ShowProgress(None))
    assert code_of(found.value) == INTEGRITY == 3
