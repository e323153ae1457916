"""The witness server: what it remembers, which logs it cosigns for, how it answers."""
