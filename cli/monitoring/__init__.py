"""Follow a log in public."""
