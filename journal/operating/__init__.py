"""How a store in use is doing: bytes, leases held, metrics."""
