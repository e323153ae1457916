"""Which records and runs a verb prints, and where they are found."""
