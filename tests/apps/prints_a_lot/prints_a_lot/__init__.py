"""Prints thousands of lines on both sides."""
