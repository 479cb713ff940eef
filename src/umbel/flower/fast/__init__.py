"""Makes Flower's own processes wait for events instead of sleeping. No file of Flower changes."""
