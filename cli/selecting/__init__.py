"""Which records and runs a verb prints, found how, in which order, from where on."""
