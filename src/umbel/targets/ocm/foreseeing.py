"""Says what OCM will decide about a document that it has not seen yet. Changes nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from umbel.errors import UmbelError
from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.kube.client import Kube
from umbel.kube.kinds import Object
from umbel.model.federation import Federation, Group
from umbel.model.placement import Placement
from umbel.model.plan import Action, Step
from umbel.model.site import Site, Verdict
from umbel.placement.engine import place
from umbel.targets.ocm import choosing, environments
from umbel.targets.ocm.environments import ADDON_LABEL, ENVIRONMENT, Sent
from umbel.targets.ocm.fleet import Fleet, members, read_clusters
from umbel.targets.ocm.names import PART, Names
from umbel.targets.ocm.seeing import condition_of
from umbel.targets.ocm.writing import Writer

Verdicts = Mapping[str, tuple[Verdict, ...]]
FORESEEN = "foreseen: OCM decides when it is up"
_Place = tuple[str, str]  # environment, cluster


class Foresight:
    """One federation's near future."""

    def __init__(self, kube: Kube, cache: Cache, writer: Writer, names: Names) -> None:
        self._kube = kube
        self._cache = cache
        self._writer = writer
        self._names = names
        self._fleet: Fleet | None = None  # nobody has looked, or nobody may
        self.blind: list[Step] = []  # what nobody can tell, and why

    def is_decided(self, group: Group) -> bool:
        """Whether OCM has decided by this very placement."""
        wanted = choosing.placement(self._names, group)
        found = self._cache[kinds.PLACEMENT].get(wanted["metadata"]["name"], self._names.namespace)
        judged = found is not None and condition_of(found, "PlacementSatisfied")
        return bool(judged) and self._writer.has(wanted)

    async def groups(self, federation: Federation, decided: Verdicts) -> Verdicts:
        """Judge the clusters for each group: OCM's own word where there is one, else what it will say."""
        await self._look(federation)
        taken: set[str] = set()
        found: dict[str, tuple[Verdict, ...]] = {}
        for group in federation.spec.groups:
            told = self._fleet is None or self.is_decided(group)
            known = decided[group.name] if told else self._judge(group)
            found[group.name] = tuple(v for v in known if v.site not in taken)
            taken |= {v.site for v in known if v.chosen}
        # Who is used by one group is no news in another, which would have passed it over.
        return {
            group: tuple(v for v in known if v.chosen or v.site not in taken)
            for group, known in found.items()
        }

    async def _look(self, federation: Federation) -> None:
        open_ = [g for g in federation.spec.groups if not self.is_decided(g)]
        if not open_ and not federation.spec.runtime.environments:
            return
        sets = {name for group in federation.spec.groups for name in choosing.cluster_sets(group)}
        try:
            clusters, _ = await self._kube.list(kinds.CLUSTER)
            scores, _ = await self._kube.list(kinds.SCORE)
            sites = read_clusters(clusters, scores)
            listed = [*sites.values()]
            held = {s: members(await self._set(s), s, listed) for s in sorted(sets)}
        except UmbelError as error:
            self.blind += [_untold(f"group {group.name}", error.fact) for group in open_]
            return
        self._fleet = Fleet(sites, held)
        for group in open_:
            missing = [s for s in choosing.cluster_sets(group) if held[s] is None]
            if missing:
                why = f"there is no cluster set {', '.join(missing)}"
                self.blind.append(_untold(f"group {group.name}", why))

    async def _set(self, name: str) -> Object | None:
        return await self._kube.get(kinds.CLUSTER_SET, name)

    def _judge(self, group: Group) -> tuple[Verdict, ...]:
        spec = choosing.placement(self._names, group)["spec"]
        wanted = Placement.model_validate(spec).model_copy(update={"cluster_sets": ()})
        index = f"{self._names.namespace}/{self._names.placement(group.name)}"
        before = {v.site for v in choosing.verdicts(self._cache[kinds.DECISION].of(index))}
        sites = self._fleet.within(choosing.cluster_sets(group)) if self._fleet else []
        told = place(wanted, sites, now_s=time.time(), previous=before, load=self._load(index))
        return tuple(replace(v, reasons=(*v.reasons, FORESEEN)) for v in told)

    def _load(self, index: str) -> Counter[str]:
        """Count the other placements that use each cluster, as OCM's Balance does."""
        own = {id(one) for one in self._cache[kinds.DECISION].of(index)}
        others = (d for d in self._cache[kinds.DECISION].objects.values() if id(d) not in own)
        chosen = (c for d in others for c in d.get("status", {}).get("decisions") or ())
        return Counter(one["clusterName"] for one in chosen)

    async def environments(
        self, federation: Federation, groups: Verdicts, image: str
    ) -> list[Step]:
        """Say where the environments of apps will be, beside where they are."""
        declared = federation.spec.runtime.environments
        if not declared and not self._sent_now():
            return []
        try:
            if declared and self._fleet is None:
                why = "the clusters could not be looked at"
            elif await self._kube.serves(kinds.WORK_SET):
                return await self._environments(federation, groups, image)
            else:
                why = "the hub does not serve ManifestWorkReplicaSet"
        except UmbelError as error:
            why = error.fact
        return [_untold(f"environment {one.name}", why) for one in declared]

    async def _environments(
        self, federation: Federation, groups: Verdicts, image: str
    ) -> list[Step]:
        there = self._sent_now()
        homes = {v.site: g for g, found in groups.items() for v in found if v.chosen}
        wanted: dict[_Place, Sent] = {}
        for sent in environments.sent_by(federation, self._names, image, homes):
            one = replace(sent, image=await self._image(sent) or image)
            wanted |= {(one.environment.name, s): one for s in self._matching(one, homes)}
        steps = [self._step(where, one, there.get(where)) for where, one in wanted.items()]
        gone = sorted(where for where in there if where not in wanted)
        steps += [_of(Action.REMOVE, where, "not wanted there any more") for where in gone]
        return steps + self._nowhere(federation, {name for name, _ in wanted})

    def _nowhere(self, federation: Federation, placed: Collection[str]) -> list[Step]:
        """Say which environments would be on no cluster at all."""
        return [
            Step(Action.WAIT, f"environment {one.name}", "", "no site matches it")
            for one in federation.spec.runtime.environments
            if one.name not in placed
        ]

    def _matching(self, sent: Sent, homes: Mapping[str, str]) -> list[str]:
        """Name the sites that an environment's own placement will choose, once they have the add-on."""
        spec = environments.placement(sent)["spec"]
        wanted = Placement.model_validate(spec).model_copy(update={"cluster_sets": ()})
        own = [share.group.name for share in sent.variant.shares]
        label = {f"{ADDON_LABEL}{self._names.addon}": "available"}
        sites = [
            replace(site, labels={**site.labels, **label})
            for name, group in sorted(homes.items())
            if group in own and (site := self._site(name))
        ]
        return [v.site for v in place(wanted, sites, now_s=time.time()) if v.chosen]

    def _site(self, name: str) -> Site | None:
        return self._fleet.sites.get(name) if self._fleet else None

    def _sent_now(self) -> dict[_Place, str]:
        """Say which object on the hub brought each environment to each cluster."""
        found: dict[_Place, str] = {}
        for one in self._cache[kinds.WORK_SET].of(self._names.addon):
            meta = one["metadata"]
            if meta["labels"].get(PART) == "environment":
                index = f"{self._names.namespace}/{meta['name']}"
                decided = choosing.verdicts(self._cache[kinds.DECISION].of(index))
                found |= {(meta["labels"][ENVIRONMENT], v.site): meta["name"] for v in decided}
        return found

    async def _image(self, sent: Sent) -> str:
        """Give the image that an executor has now, where the document names none: an operator's."""
        if sent.environment.image.name:
            return ""
        found = await self._kube.get(kinds.WORK_SET, sent.name, self._names.namespace)
        return next(_images(found), "") if found else ""

    def _step(self, where: _Place, sent: Sent, there: str | None) -> Step:
        if there is None:
            return _of(Action.CREATE, where, "does not exist")
        if there == sent.name and self._writer.has(environments.work_set(sent)):
            return _of(Action.KEEP, where, "as wanted")
        return _of(Action.REPLACE, where, "its definition changed: settings")


def _images(work_set: Object) -> Iterator[str]:
    workload = work_set["spec"]["manifestWorkTemplate"]["workload"]
    for manifest in workload.get("manifests") or ():
        pod = manifest.get("spec", {}).get("template", {}).get("spec", {})
        yield from (c["image"] for c in pod.get("containers") or ())


def _of(action: Action, where: _Place, reason: str) -> Step:
    environment, site = where
    return Step(action, f"{site}/environment {environment}", site, reason)


def _untold(what: str, why: str) -> Step:
    return Step(Action.WAIT, what, "", f"nobody can tell which clusters: {why}")


def chosen(groups: Verdicts) -> Sequence[str]:
    """Name the clusters that are used."""
    return [v.site for found in groups.values() for v in found if v.chosen]
