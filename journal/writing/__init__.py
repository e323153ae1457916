"""Many callers, one transaction."""
