"""Keys, where they are kept, and what they have promised."""
