"""What an auditor asks of a store or a bundle, brings to it, and is told."""
