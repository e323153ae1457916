"""Follow a log in public, and remember every leaf."""
