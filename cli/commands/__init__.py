"""One file per verb: its options, what it asks the journal, what it prints."""
