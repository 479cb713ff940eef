"""Rounds whose result is known."""
