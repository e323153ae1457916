"""Read what is left of a damaged store, and build a new store from it."""
