"""Sends arrays out and back: a round costs what the machinery costs."""
