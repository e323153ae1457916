"""Derive everything again, and say what differs."""
