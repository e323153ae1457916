"""Another store from this one: backups, restores, and what is left of a damaged store."""
