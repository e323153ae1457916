"""May this enter, and what does it become? Pure: stored rows in, rows to store out."""
