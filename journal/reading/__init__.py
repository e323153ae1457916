"""Answers from one snapshot, and following what comes."""
