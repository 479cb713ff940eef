"""Message API, NumPy only; the final weights can be computed by hand."""
