"""Keeps every Federation of a hub as declared."""
