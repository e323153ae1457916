"""Keys, and what they have promised."""
