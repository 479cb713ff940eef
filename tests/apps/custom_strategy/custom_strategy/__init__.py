"""A strategy of its own, which saves its model itself."""
