"""What is left of a damaged store, and a new store from it."""
