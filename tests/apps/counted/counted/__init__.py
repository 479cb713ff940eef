"""Counts its executions itself."""
