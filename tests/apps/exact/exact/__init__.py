"""The same weights wherever it runs."""
