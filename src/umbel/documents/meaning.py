"""What is well-formed and still cannot be meant: checks over several fields.

They work on the tree, not on the model, so that a slip elsewhere does not hide them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from umbel.documents.clusters import foreign_groups, keys_without_effect
from umbel.documents.explain import BadLength
from umbel.documents.nodes import (
    Mapping,
    Node,
    Scalar,
    child,
    items_at,
    key_mark,
    nearest_mark,
    text_at,
)
from umbel.documents.problems import DocumentInvalid, Kind, Path, Problem, Text, quoted, shown
from umbel.documents.shape import read_part
from umbel.documents.words import either
from umbel.model.federation import OWNER, Group, Target
from umbel.model.placement import Placement
from umbel.model.unit import HUB


class DuplicateGroup(DocumentInvalid):
    """Two groups have the same name."""

    code = "U134"


class DuplicateSite(DocumentInvalid):
    """Two sites have the same name."""

    code = "U135"


class DuplicateUser(DocumentInvalid):
    """Two users have the same name."""

    code = "U136"


class DuplicatePort(DocumentInvalid):
    """Two of the gate's ports are the same."""

    code = "U137"


class ReservedName(DocumentInvalid):
    """A site or user has a name that Umbel uses itself."""

    code = "U138"


class KeyNotForTarget(DocumentInvalid):
    """A group has a key that means nothing on its target."""

    code = "U139"


class HubCannotJoin(DocumentInvalid):
    """The SuperLink is declared on a target that cannot host it."""

    code = "U140"


class PlacementImpossible(DocumentInvalid):
    """No site can ever satisfy the placement."""

    code = "U141"


class DuplicateEnvironment(DocumentInvalid):
    """Two environments have the same name."""

    code = "U146"


class UnknownGroup(DocumentInvalid):
    """An environment names a group that is not declared."""

    code = "U147"


_LONGEST = 63
_NUMBER = re.compile(r"[1-9][0-9]{0,3}")
_USUAL: int = Group.model_fields["sites"].default
_FITS: dict[str, tuple[Target, str]] = {
    "sites": (Target.LOCAL, "remove it; placement.numberOfClusters limits how many are used"),
    "zones": (Target.OPENNEBULA, "remove it; placement chooses sites by label on every target"),
    "cardinality": (
        Target.OPENNEBULA,
        "remove it; placement.numberOfClusters limits how many are used",
    ),
    "kubernetes": (Target.OCM, "remove it; the group's sites are not pods"),
}


def senseless(root: Mapping, text: Text) -> list[Problem]:
    """Find everything that cannot be meant."""
    return [problem for check in _CHECKS for problem in check(root, text)]


def _groups(root: Mapping) -> Iterator[tuple[Path, Node]]:
    for n, group in enumerate(items_at(root, "spec", "groups")):
        yield ("spec", "groups", n), group


def _repeated(
    root: Mapping, text: Text, kind: Kind, what: str, paths: Iterable[Path]
) -> Iterator[Problem]:
    """Report every path whose value another path had before."""
    seen: dict[str | int, Path] = {}
    for path in paths:
        node = child(root, *path)
        if not isinstance(node, Scalar) or not isinstance(node.value, str | int):
            continue
        first = seen.setdefault(node.value, path)
        if first is not path:
            line = key_mark(root, first).line
            fact = f"the {what} {quoted(node.raw)} is taken, first in line {line}"
            yield text.problem(
                kind, fact, f"give one of them another {what}", at=node.mark, path=path
            )


def _group_names(root: Mapping, text: Text) -> Iterator[Problem]:
    paths = [(*path, "name") for path, _ in _groups(root)]
    return _repeated(root, text, DuplicateGroup, "group name", paths)


def _site_paths(root: Mapping) -> Iterator[Path]:
    for path, group in _groups(root):
        for n, _ in enumerate(items_at(group, "sites")):
            yield (*path, "sites", n, "name")


def _site_names(root: Mapping, text: Text) -> Iterator[Problem]:
    return _repeated(root, text, DuplicateSite, "site name", _site_paths(root))


def _numbered(root: Mapping) -> Iterator[tuple[Path, str, int]]:
    """Local groups that say how many sites they have; those are called a-1, a-2 and so on."""
    for path, group in _groups(root):
        name, sites = text_at(group, "name"), child(group, "sites")
        count = sites.value if isinstance(sites, Scalar) else _USUAL if sites is None else None
        if name and text_at(group, "on") in {None, Target.LOCAL} and isinstance(count, int):
            yield path, name, count


def _made_names(root: Mapping, text: Text) -> Iterator[Problem]:
    """Names that are made for sites must be names, and must not be somebody else's."""
    counts = {name: count for _, name, count in _numbered(root)}
    for path, name, count in _numbered(root):
        if len(name) <= _LONGEST < len(f"{name}-{count}"):
            fact = f"the group's sites would be called {quoted(f'{name[:9]}…-{count}')}, too long"
            hint = f"names have at most {_LONGEST} characters: choose a shorter one"
            here = (*path, "name")
            yield text.problem(BadLength, fact, hint, at=nearest_mark(root, here), path=here)
    for path in _site_paths(root):
        name = text_at(root, *path) or ""
        group, _, number = name.rpartition("-")
        if _NUMBER.fullmatch(number) and int(number) <= counts.get(group, 0):
            fact = f"the site name {quoted(name)} is taken by a site of group {quoted(group)}"
            hint = "choose another name: the sites of a group with a number are called like this"
            yield text.problem(DuplicateSite, fact, hint, at=nearest_mark(root, path), path=path)


def _user_paths(root: Mapping) -> Iterator[Path]:
    for n, _ in enumerate(items_at(root, "spec", "security", "users")):
        yield ("spec", "security", "users", n, "name")


def _user_names(root: Mapping, text: Text) -> Iterator[Problem]:
    return _repeated(root, text, DuplicateUser, "user name", _user_paths(root))


def _port_numbers(root: Mapping, text: Text) -> Iterator[Problem]:
    ports: list[Path] = [("spec", "superlink", "ports", p) for p in ("fleet", "control", "runtime")]
    return _repeated(root, text, DuplicatePort, "port", ports)


def _reserved_names(root: Mapping, text: Text) -> Iterator[Problem]:
    taken = [(path, HUB, "the place where the SuperLink runs") for path in _site_paths(root)]
    taken += [(path, OWNER, "whoever declares the federation") for path in _user_paths(root)]
    for path, name, what in taken:
        if text_at(root, *path) == name:
            fact = f"the name {quoted(name)} is reserved for {what}"
            at = nearest_mark(root, path)
            yield text.problem(ReservedName, fact, "choose another name", at=at, path=path)


def _keys_fit_targets(root: Mapping, text: Text) -> Iterator[Problem]:
    for path, group in _groups(root):
        on = (text_at(group, "on") or Target.LOCAL) if isinstance(group, Mapping) else ""
        for key, (target, hint) in _FITS.items():
            if on in list(Target) and on != target and child(group, key) is not None:
                here = (*path, key)
                fact = f'"{key}" is only for groups on {target}, and this one is on {on}'
                yield text.problem(KeyNotForTarget, fact, hint, at=key_mark(root, here), path=here)


def _hub_is_hosted(root: Mapping, text: Text) -> Iterator[Problem]:
    path = ("spec", "superlink", "on")
    node = child(root, *path)
    if isinstance(node, Scalar) and node.value == Target.JOIN:
        hosts = either([t for t in Target if t is not Target.JOIN])
        fact = "the SuperLink cannot join: it is what others join"
        yield text.problem(HubCannotJoin, fact, f"choose {hosts}", at=node.mark, path=path)


def _environments(root: Mapping) -> Iterator[tuple[Path, Node]]:
    for n, environment in enumerate(items_at(root, "spec", "runtime", "environments")):
        yield ("spec", "runtime", "environments", n), environment


def _environment_names(root: Mapping, text: Text) -> Iterator[Problem]:
    paths = [(*path, "name") for path, _ in _environments(root)]
    return _repeated(root, text, DuplicateEnvironment, "environment name", paths)


def _environment_groups(root: Mapping, text: Text) -> Iterator[Problem]:
    names = [name for _, group in _groups(root) if (name := text_at(group, "name"))]
    for path, environment in _environments(root):
        for n, node in enumerate(items_at(environment, "groups")):
            if isinstance(node, Scalar) and isinstance(node.value, str) and node.value not in names:
                fact = f"there is no group {quoted(node.raw)}"
                hint = f"choose {either(names)}" if names else "declare it in spec.groups"
                here = (*path, "groups", n)
                yield text.problem(UnknownGroup, fact, hint, at=node.mark, path=here)


def _placements(root: Mapping, text: Text) -> Iterator[Problem]:
    for path, group in _groups(root):
        node = child(group, "placement")
        placement = read_part(Placement, node) if isinstance(node, Mapping) else None
        for fact, hint, below in _flaws(placement) if placement else ():
            here = (*path, "placement", *below)
            at = nearest_mark(root, here)
            yield text.problem(PlacementImpossible, fact, hint, at=at, path=here)


def _flaws(placement: Placement) -> list[tuple[str, str, Path]]:
    """Ask the placement rules, which are loaded only for a document that has a placement."""
    if placement == Placement():
        return []
    from umbel.placement.validate import check  # noqa: PLC0415  # it brings CEL, which is slow

    return [(shown(flaw.fact), shown(flaw.hint), flaw.path) for flaw in check(placement)]


_CHECKS: Sequence[Callable[[Mapping, Text], Iterable[Problem]]] = (
    _group_names,
    _site_names,
    _made_names,
    _user_names,
    _port_numbers,
    _reserved_names,
    _keys_fit_targets,
    _hub_is_hosted,
    _environment_names,
    _environment_groups,
    _placements,
    keys_without_effect,
    foreign_groups,
)
