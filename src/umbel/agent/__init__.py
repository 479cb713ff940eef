"""Keeps a machine's processes running: starts, adopts, restarts, ends them."""
