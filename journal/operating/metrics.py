"""Open journals' statistics for Prometheus. It needs the extra `prometheus`, and nothing else of Sealbook imports it.

    from prometheus_client import REGISTRY
    REGISTRY.register(Collector({"agents": journal}))

Each scrape takes the numbers as they stand; nothing is counted twice or kept. No tenant and no run is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from sealbook.journal.store.journal import Journal

STORE: Final = "store"  # the label that tells journals apart

COUNTERS: Final = {
    "commits": "Transactions that wrote something, durably.",
    "requests": "Requests that were answered, refused ones among them.",
    "entries": "Entries that were taken in, and one for each other request that was.",
    "payload_bytes": "Encoded data of those entries, in bytes.",
}
HISTOGRAMS: Final = {  # member -> the metric's name, what a unit of it is worth, and what it is
    "batch_requests": ("batch_requests", 1.0, "Requests that shared one transaction."),
    "waiting_milliseconds": ("waiting_seconds", 0.001, "From handing in a request to the start of its transaction."),
    "commit_milliseconds": ("commit_seconds", 0.001, "From the start of a transaction to its durable end."),
}
STORAGE: Final = {
    "map_bytes": "What the store's file may grow to before its map must.",
    "used_bytes": "What is used of the store's file, free pages within it too.",
}


class Collector:
    """Collects from journals, each under the name that its label `store` will have. Closed ones keep their counts."""

    def __init__(self, journals: Mapping[str, Journal]) -> None:
        self._journals = dict(journals)

    def collect(self) -> Iterator[Metric]:
        """All metrics, as Prometheus' registry asks for them."""
        found = {name: journal.statistics() for name, journal in self._journals.items()}
        for member, what in COUNTERS.items():
            yield _counter(member, what, found)
        refusals = CounterMetricFamily(
            "sealbook_refusals", "Requests that were answered with an error, by its kind.", labels=(STORE, "kind")
        )
        for name, numbers in found.items():
            for kind, count in sorted(numbers["refusals"].items()):
                refusals.add_metric((name, kind), count)
        yield refusals
        queue = GaugeMetricFamily("sealbook_queue_requests", "Requests without an answer.", labels=(STORE,))
        for name, numbers in found.items():
            queue.add_metric((name,), numbers["queue"])
        yield queue
        for member, (metric, unit, what) in HISTOGRAMS.items():
            yield _histogram(member, metric, unit, what, found)
        for measure, what in STORAGE.items():
            yield _gauge(measure, what, found)


def _counter(member: str, what: str, found: Mapping[str, dict[str, Any]]) -> Metric:
    family = CounterMetricFamily(f"sealbook_{member}", what, labels=(STORE,))
    for name, numbers in found.items():
        family.add_metric((name,), numbers[member])
    return family


def _histogram(member: str, metric: str, unit: float, what: str, found: Mapping[str, dict[str, Any]]) -> Metric:
    family = HistogramMetricFamily(f"sealbook_{metric}", what, labels=(STORE,))
    for name, numbers in found.items():
        histogram = numbers[member]
        buckets = [(f"{float(bound) * unit:g}", count) for bound, count in histogram["at_most"].items()]
        family.add_metric((name,), [*buckets, ("+Inf", histogram["count"])], histogram["sum"] * unit)
    return family


def _gauge(measure: str, what: str, found: Mapping[str, dict[str, Any]]) -> Metric:
    family = GaugeMetricFamily(f"sealbook_store_{measure}", what, labels=(STORE,))
    for name, numbers in found.items():
        if measure in numbers["storage"]:
            family.add_metric((name,), numbers["storage"][measure])
    return family
