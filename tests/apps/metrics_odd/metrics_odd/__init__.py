"""Metrics with odd names and values, and no accuracy."""
