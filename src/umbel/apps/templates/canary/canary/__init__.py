"""Five rounds whose result is known."""
