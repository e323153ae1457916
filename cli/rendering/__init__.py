"""How records, runs and answers look: as JSON, as lines for people, and how both reach a terminal unharmed."""
