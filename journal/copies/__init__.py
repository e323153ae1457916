"""Another store from this one."""
