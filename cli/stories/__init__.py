"""What a run's records tell one after the other, and how a store stands."""
