"""What a person may do. Alone in its module, so that the gate stays small."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What a person may do, each including the one before."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def reaches(self, needed: Role) -> bool:
        """Whether this role may do what `needed` may do."""
        order = list(Role)
        return order.index(self) >= order.index(needed)
