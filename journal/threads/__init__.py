"""Wake, wait and take turns."""
