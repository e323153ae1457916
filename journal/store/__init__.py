"""The verbs, and the only place that opens transactions."""
