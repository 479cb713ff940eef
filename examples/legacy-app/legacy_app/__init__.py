"""A straight line, fitted by several sites; written in Flower's older API."""
