"""Verify a run from files, without a store."""
