"""What `show` is asked for: which records, found how, from where on. How they look is `rendering`'s."""
