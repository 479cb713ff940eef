"""Looks at the world for the checks. Changes nothing, starts nothing that stays, waits for little."""

from umbel.diagnosis.gather.everything import gather

__all__ = ["gather"]
