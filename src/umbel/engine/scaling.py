"""Another number of sites, as a document."""

from __future__ import annotations

from umbel.engine.engine import GroupUnknown
from umbel.errors import RequestError
from umbel.model.federation import Federation, Group


class ScaleTooFar(RequestError):
    """The group has no more sites to give."""

    code = "U327"

    def __init__(self, group: str, wanted: int, declared: int) -> None:
        super().__init__(
            f"group {group!r} cannot have {wanted} sites: {declared} are declared",
            hint="declare more sites in the document, then umbel up -f FILE",
        )


class ScaleInvalid(RequestError):
    """The number of sites is out of range."""

    code = "U328"

    def __init__(self, wanted: int) -> None:
        super().__init__(f"{wanted} is not a number of sites", hint="0 to 1000")


def scaled(federation: Federation, group: str, count: int) -> Federation:
    """Give the document with `count` sites in `group`."""
    groups = federation.spec.groups
    if group not in {g.name for g in groups}:
        raise GroupUnknown(group, [g.name for g in groups])
    if not 0 <= count <= 1000:  # noqa: PLR2004  # as the document allows
        raise ScaleInvalid(count)
    changed = tuple(_resized(g, count) if g.name == group else g for g in groups)
    spec = federation.spec.model_copy(update={"groups": changed})
    return federation.model_copy(update={"spec": spec})


def _resized(group: Group, count: int) -> Group:
    if isinstance(group.sites, int):
        return group.model_copy(update={"sites": count})
    if count > len(group.sites):
        raise ScaleTooFar(group.name, count, len(group.sites))
    placement = group.placement.model_copy(update={"number_of_clusters": count})
    return group.model_copy(update={"placement": placement})
