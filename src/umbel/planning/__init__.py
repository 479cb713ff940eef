"""Pure decisions: what must exist, what to do, how it does."""
