"""Counts its calls in context.state."""
