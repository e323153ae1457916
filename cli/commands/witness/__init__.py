"""The sub-commands of `witness`."""
