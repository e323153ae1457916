"""What an auditor asks of a store or of a bundle, brings to it, and is told."""
