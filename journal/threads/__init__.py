"""Threads wake each other and take turns."""
