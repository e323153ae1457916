"""Ordered bytes in named tables: the port, and the engines that keep it."""
