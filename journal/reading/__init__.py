"""Answer from one snapshot, and follow what comes."""
