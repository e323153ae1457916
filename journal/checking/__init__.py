"""Derive a store again from its record bytes, and say what differs."""
