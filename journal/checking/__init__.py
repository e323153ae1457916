"""Derive everything again from the record bytes, and say what differs."""
