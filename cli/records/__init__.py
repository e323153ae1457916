"""The fields of records and how they look: JSON, lines for people, streams for programs."""
