"""The verbs, composed by subject, and the only place that opens transactions."""
