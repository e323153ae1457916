"""Where everything stands: tables, standings, origins, the identity of a store."""
