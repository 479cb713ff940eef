"""Runs tasks in SuperExec's place: each in a process of its own, forked from a ready parent."""
