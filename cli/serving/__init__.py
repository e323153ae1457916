"""What our servers have in common, and the tiles that one of them serves."""
