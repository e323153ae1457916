"""How a store in use is doing."""
