"""How text reaches a person's terminal unharmed."""
