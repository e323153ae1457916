"""What every verb stands on: its options, the store it opens, the files it is given, its exit code."""
