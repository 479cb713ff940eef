"""The older API: NumPyClient, client_fn, server_fn."""
