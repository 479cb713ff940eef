"""Decisions meet effects here, and nowhere else."""
