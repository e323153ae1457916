"""What Prometheus scrapes: the statistics, in its own units and under its own names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from project import ROOT, names_used, sources
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from sealbook.journal import Fenced, Journal, entries
from sealbook.journal.operating.metrics import Collector

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scraped(collector: Collector) -> Samples:
    """All samples of the text exposition, by name and labels."""
    registry = CollectorRegistry()
    registry.register(collector)
    text = generate_latest(registry).decode()
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            place = (sample.name, tuple(sorted(sample.labels.items())))
            assert place not in found
            found[place] = sample.value
    return found


def used(journal: Journal) -> None:
    """Two commits of one request and three entries in all, and a refusal."""
    acme = journal.tenant("acme")
    acme.append("r", [entries.note("x"), entries.note("y")], epoch=1)
    acme.append("r", [entries.note("z")], epoch=1)
    with pytest.raises(Fenced):
        acme.append("r", [entries.note("secret")], epoch=9)


def test_every_number_is_scraped(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "s", create=True) as journal:
        used(journal)
        statistics, samples = journal.statistics(), scraped(Collector({"agents": journal}))
    store = (("store", "agents"),)
    for member in ("commits", "requests", "entries", "payload_bytes"):
        assert samples[f"sealbook_{member}_total", store] == statistics[member] > 0
    assert samples["sealbook_refusals_total", (("kind", "Fenced"), *store)] == 1
    assert samples["sealbook_queue_requests", store] == 0
    for measure in ("map_bytes", "used_bytes"):
        assert samples[f"sealbook_store_{measure}", store] == statistics["storage"][measure] > 0


@pytest.mark.parametrize(
    ("member", "metric", "unit"),
    [
        ("batch_requests", "batch_requests", 1),
        ("waiting_milliseconds", "waiting_seconds", 1000),
        ("commit_milliseconds", "commit_seconds", 1000),
    ],
)
def test_histograms_are_cumulative_and_in_seconds(member: str, metric: str, unit: int) -> None:
    journal = Journal.in_memory()
    used(journal)
    histogram, samples = journal.statistics()[member], scraped(Collector({"s": journal}))
    buckets = {
        float(dict(labels)["le"]): value
        for (name, labels), value in samples.items()
        if name.endswith(f"{metric}_bucket")
    }
    assert buckets.pop(float("inf")) == histogram["count"] > 0
    assert {bound * unit: count for bound, count in buckets.items()} == pytest.approx(
        {float(bound): count for bound, count in histogram["at_most"].items()}
    )
    assert samples[f"sealbook_{metric}_count", (("store", "s"),)] == histogram["count"]
    assert samples[f"sealbook_{metric}_sum", (("store", "s"),)] * unit == pytest.approx(histogram["sum"])


def test_several_journals_are_told_apart_and_a_closed_one_keeps_its_counts(tmp_path: Path) -> None:
    one, two = Journal.open(tmp_path / "s", create=True), Journal.in_memory()
    used(one)
    collector = Collector({"one": one, "two": two})
    one.close()
    samples = scraped(collector)
    assert samples["sealbook_commits_total", (("store", "one"),)] == 2
    assert samples["sealbook_commits_total", (("store", "two"),)] == 0
    assert not [name for name, _ in samples if name.startswith("sealbook_store_")]


def test_no_tenant_and_no_run_is_named() -> None:
    journal = Journal.in_memory()
    used(journal)
    names = {name for _, labels in scraped(Collector({"s": journal})) for name, _ in labels}
    assert names == {"store", "kind", "le"}


def test_the_page_for_operators_has_every_metric() -> None:
    page = (ROOT / "docs" / "logging.md").read_text(encoding="utf-8").partition("## Prometheus")[2]
    listed = re.findall(r"^\| `(\w+)` \| (\w+)", page, flags=re.MULTILINE)
    families = Collector({"s": Journal.in_memory()}).collect()
    assert listed == [
        (f"{family.name}_total" if family.type == "counter" else family.name, family.type) for family in families
    ]


@pytest.mark.slow
def test_nothing_but_the_collector_imports_prometheus() -> None:
    importing = {
        source.name
        for source in sources()
        if any(name.partition(".")[0] == "prometheus_client" for _, name in names_used(source))
    }
    assert importing == {"metrics.py"}
