"""Where everything stands in the store."""
