"""The only door to Flower. Nothing is imported here, so that reading a table costs nothing."""
