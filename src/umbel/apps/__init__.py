"""Flower apps: the one that Umbel brings along."""
