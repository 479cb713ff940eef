"""Umbel: one declared document becomes a running, secured, observed Flower federation."""

__version__ = "0.1.0"
