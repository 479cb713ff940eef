"""Which version and which values each cluster has: given in batches, gated on health, taken back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.kube.kinds import Object
from umbel.model.federation import Federation, Group
from umbel.model.kubernetes import Rollout, SitesOnKubernetes
from umbel.model.site import Verdict
from umbel.model.status import Condition
from umbel.planning.rollout import Candidate, Course, next_course
from umbel.targets.ocm import sites
from umbel.targets.ocm.names import Names
from umbel.targets.ocm.seeing import report_of
from umbel.targets.ocm.writing import Writer

HALTED = "umbel.dev/halted"  # annotation on the add-on: releases that failed, by group


class Releases:
    """The versions of one federation."""

    def __init__(self, writer: Writer, cache: Cache, names: Names) -> None:
        self._writer = writer
        self._cache = cache
        self._names = names
        self._templates: dict[str, str] = {}
        self._courses: dict[str, Course] = {}
        self.hindrances: list[Condition] = []
        self.online: frozenset[str] = frozenset()  # sites that the SuperLink sees

    def template(self, group: str) -> str:
        """Name the version that a group's sites should run."""
        return self._templates[group]

    async def publish(self, federation: Federation, versions: Sequence[sites.Version]) -> None:
        """Have the wanted versions on the hub, and the add-on that they are versions of."""
        del federation
        for version in versions:
            made = sites.template(version)
            self._templates[version.group.name] = made["metadata"]["name"]
            await self._writer.have(made)
        first = self._templates[versions[0].group.name]
        await self._writer.have(sites.addon(self._names, first))

    async def give(
        self,
        federation: Federation,
        values: Mapping[str, sites.SiteValues],
        fingerprints: Mapping[str, str],
        verdicts: Mapping[str, tuple[Verdict, ...]],
    ) -> None:
        """Give these clusters what they should have: new ones at once, others in their turn."""
        self.hindrances = []
        for group in federation.spec.groups:
            own = {s: v for s, v in values.items() if v.group == group.name}
            if own:
                await self._give_group(group, own, fingerprints, verdicts.get(group.name, ()))

    async def _give_group(
        self,
        group: Group,
        values: Mapping[str, sites.SiteValues],
        fingerprints: Mapping[str, str],
        verdicts: Sequence[Verdict],
    ) -> None:
        running = {s: m for s in values if (m := self._installed(s)) is not None}
        for site in sorted(values.keys() - running.keys()):
            await self._install(values[site], fingerprints[site], None)
        if not running:
            return
        rollout = (group.kubernetes or SitesOnKubernetes()).rollout
        course = next_course(self._candidates(values, verdicts), rollout)
        self._courses[group.name] = course
        for site in course.update:
            if site in running:
                await self._install(values[site], fingerprints[site], sites.given(running[site]))
        self._tell(group, course, rollout)

    def _installed(self, cluster: str) -> Object | None:
        found = self._cache[kinds.INSTALLED].get(self._names.addon, cluster)
        return None if found is None or found["metadata"].get("deletionTimestamp") else found

    def _candidates(
        self, values: Mapping[str, sites.SiteValues], verdicts: Sequence[Verdict]
    ) -> list[Candidate]:
        """Judge every site of the group; those that are not in `values` have what they should."""
        works: dict[str, list[Object]] = {}
        for work in self._cache[kinds.WORK].of(self._names.addon):
            works.setdefault(work["metadata"]["namespace"], []).append(work)
        found = []
        for verdict in verdicts:
            installed = self._installed(verdict.site)
            now = sites.given(installed) if installed else None
            if now is None:
                continue
            wanted = values.get(verdict.site)
            report = report_of(works.get(verdict.site, ()))
            healthy = report.state == "online" and report.release == now.release
            found.append(
                Candidate(
                    verdict.site,
                    verdict.decision_index,
                    current=wanted is None or wanted.release == now.release,
                    healthy=healthy,
                    since_s=_age_s(now.at),
                )
            )
        return found

    async def _install(
        self, values: sites.SiteValues, fingerprints: str, before: sites.Given | None
    ) -> None:
        await self._writer.have(sites.config(values))
        now = sites.Given(
            values.template,
            sites.config_name(values),
            values.release,
            fingerprints,
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        made = sites.installed(self._names, values.cluster, values.group, now, before)
        await self._writer.have(made)

    def _tell(self, group: Group, course: Course, rollout: Rollout) -> None:
        if course.state == "halted":
            self.hindrances.append(
                Condition(
                    "RolledOut",
                    "False",
                    "RolloutHalted",
                    f"group {group.name}: {len(course.failed)} sites failed "
                    f"({', '.join(course.failed[:3])}); {rollout.max_failures} may",
                    "mend the document: another version begins another rollout",
                )
            )


def _age_s(at: str) -> float:
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds()
    except ValueError:
        return 0.0
