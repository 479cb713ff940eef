"""Sites on this machine: the embedded default."""
