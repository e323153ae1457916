"""What every verb stands on: the options before it, the store it opens, the files it is given, its exit code."""
