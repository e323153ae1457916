"""What a run's records tell when they are read one after the other, and how a store stands."""
