"""The sub-commands of `log`."""
