"""The daemon: the engine behind an HTTP API on a Unix socket."""
