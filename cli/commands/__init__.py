"""One file per verb, or family of verbs: its options, what it asks the journal, what it prints."""
