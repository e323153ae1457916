"""What is left of a damaged store, page by page and row by row."""
