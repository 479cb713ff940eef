"""The gate: the only door of a federation. It lets in who is known, and lets out nothing else."""
