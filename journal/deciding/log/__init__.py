"""What enters a Merkle log, and what of it may be signed and published."""
