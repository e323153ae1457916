"""The fields of records, and how they look: as JSON, as lines for people, as streams for programs."""
