"""Another store from this one: backups, restores, and what is saved of a damaged one."""
