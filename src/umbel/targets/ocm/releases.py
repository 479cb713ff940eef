"""Which version and which values each cluster has: given in batches, gated on health, taken back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.kube.kinds import Object
from umbel.model.federation import Federation, Group
from umbel.model.kubernetes import SitesOnKubernetes
from umbel.model.site import Verdict
from umbel.model.status import Condition
from umbel.planning.rollout import Candidate, Course, next_course
from umbel.targets.ocm import sites
from umbel.targets.ocm.names import Names
from umbel.targets.ocm.seeing import Report, reports_of
from umbel.targets.ocm.writing import Writer, side_by_side

HALTED = "umbel.dev/halted"  # annotation on the add-on: by group what failed, and where
_NAMED = 3


class Releases:
    """The versions of one federation."""

    def __init__(self, writer: Writer, cache: Cache, names: Names) -> None:
        self._writer = writer
        self._cache = cache
        self._names = names
        self._templates: dict[str, str] = {}
        self._marks: dict[str, str] = {}  # by group: what its sites should be, all in all
        self._courses: dict[str, Course] = {}
        self.progress: Object = {}  # of the rollout that was looked at last, as the status has it
        self.online: frozenset[str] | None = None  # sites that the SuperLink sees, if asked

    def template(self, group: str) -> str:
        """Name the version that a group's sites should run; empty before it is published."""
        return self._templates.get(group, "")

    async def publish(self, versions: Sequence[sites.Version]) -> None:
        """Have the wanted versions on the hub, and the add-on that they are versions of."""
        self._courses.clear()  # whoever has to change is named again
        self.progress = {}
        for version in versions:
            made = sites.template(version)
            name, group = made["metadata"]["name"], version.group
            self._templates[group.name] = name
            self._marks[group.name] = _mark(name, group)
            if self._cache[kinds.TEMPLATE].get(name) is None:  # a version never changes
                await self._writer.have(made)
        await self._declare(self._halted())

    async def _declare(self, halted: Mapping[str, Sequence[str]]) -> None:
        first = next(iter(self._templates.values()))
        notes = {HALTED: json.dumps(dict(halted), sort_keys=True)} if halted else {}
        await self._writer.have(sites.addon(self._names, first, notes))

    def _halted(self) -> dict[str, list[str]]:
        """Read what failed before, and on whom; what is not wanted any more is forgotten."""
        found = self._cache[kinds.ADDON].get(self._names.addon)
        text = (found or {}).get("metadata", {}).get("annotations", {}).get(HALTED, "{}")
        return {g: said for g, said in json.loads(text).items() if self._marks.get(g) == said[0]}

    async def give(
        self,
        federation: Federation,
        values: Mapping[str, sites.SiteValues],
        fingerprints: Mapping[str, str],
        verdicts: Mapping[str, tuple[Verdict, ...]],
    ) -> None:
        """Give these clusters what they should have: new ones at once, others in their turn."""
        for group in federation.spec.groups:
            own = {s: v for s, v in values.items() if v.group == group.name}
            fresh = sorted(s for s in own if self._installed(s) is None)
            new = [(own.pop(site), fingerprints[site]) for site in fresh]
            await side_by_side(lambda one: self._install(*one), new)
            if own:
                await self._roll(group, own, fingerprints, verdicts.get(group.name, ()))

    async def _roll(
        self,
        group: Group,
        values: Mapping[str, sites.SiteValues],
        fingerprints: Mapping[str, str],
        verdicts: Sequence[Verdict],
    ) -> None:
        """Take the next steps of a rollout; one that failed is taken back and not tried again."""
        halted = self._halted()
        if group.name in halted:
            self._courses[group.name] = Course(state="halted", failed=tuple(halted[group.name][1:]))
            return
        settings = group.kubernetes or SitesOnKubernetes()
        candidates = self._candidates(values, verdicts)
        course = next_course(candidates, settings.rollout)
        self._courses[group.name] = course
        self.progress = _progress(group, self._templates[group.name], candidates, course)
        if course.state == "halted":
            failed = [self._marks[group.name], *course.failed[:_NAMED]]
            await self._declare({**halted, group.name: failed})
            for site in course.revert:
                await self._revert(group, site)
        for site in course.update:
            await self._install(values[site], fingerprints[site])

    def _installed(self, cluster: str) -> Object | None:
        found = self._cache[kinds.INSTALLED].get(self._names.addon, cluster)
        return None if found is None or found["metadata"].get("deletionTimestamp") else found

    def _candidates(
        self, values: Mapping[str, sites.SiteValues], verdicts: Sequence[Verdict]
    ) -> list[Candidate]:
        """Judge every site of the group; those that are not in `values` have what they should."""
        reports = reports_of(self._cache[kinds.WORK].of(self._names.addon))
        found = []
        for verdict in verdicts:
            installed = self._installed(verdict.site)
            now = sites.given(installed) if installed else None
            if installed is None or now is None:
                continue
            wanted = values.get(verdict.site)
            report = reports.get(verdict.site, Report())
            found.append(
                Candidate(
                    verdict.site,
                    verdict.decision_index,
                    current=wanted is None or wanted.release == now.release,
                    healthy=self._is_well(verdict.site, now, report),
                    proved=report.release == now.release,
                    since_s=_age_s(now.at),
                    new=sites.given(installed, sites.BEFORE) is None,
                )
            )
        return found

    def _is_well(self, site: str, now: sites.Given, report: Report) -> bool:
        """A site is well when it says so itself of this release, and the SuperLink sees it."""
        says = report.state == "online" and report.release == now.release
        return says and (self.online is None or site in self.online)

    def settled(self, chosen: Sequence[str]) -> bool:
        """Whether every chosen site runs, and is well with, what its group should run now."""
        reports = reports_of(self._cache[kinds.WORK].of(self._names.addon))
        for site in chosen:
            installed = self._installed(site)
            now = sites.given(installed) if installed else None
            if now is None or now.template not in self._templates.values():
                return False
            if not self._is_well(site, now, reports.get(site, Report())):
                return False
        return True

    async def _install(self, values: sites.SiteValues, fingerprints: str) -> None:
        installed = self._installed(values.cluster)
        before = sites.given(installed) if installed else None
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

    async def _revert(self, group: Group, site: str) -> None:
        """Give a site back what it had; one that had nothing before keeps what it has."""
        installed = self._installed(site)
        before = sites.given(installed, sites.BEFORE) if installed else None
        if before is not None:
            made = sites.installed(self._names, site, group.name, before, None)
            await self._writer.have(made)

    async def tidy(self) -> None:
        """Remove versions and values that nobody has, had last, or should have."""
        used = set(self._templates.values())
        for installed in self._cache[kinds.INSTALLED].of(self._names.addon):
            for one in (sites.given(installed), sites.given(installed, sites.BEFORE)):
                if one is not None:
                    used |= {one.template, f"{installed['metadata']['namespace']}/{one.config}"}
        for template in self._cache[kinds.TEMPLATE].of(self._names.addon):
            if template["metadata"]["name"] not in used:
                await self._writer.gone(kinds.TEMPLATE, template)
        for config in self._cache[kinds.ADDON_CONFIG].of(self._names.addon):
            meta = config["metadata"]
            if f"{meta['namespace']}/{meta['name']}" not in used:
                await self._writer.gone(kinds.ADDON_CONFIG, config)

    @property
    def hindrances(self) -> list[Condition]:
        """Say which rollouts go on or were stopped."""
        found = []
        for group, course in self._courses.items():
            if course.state == "halted":
                failed = ", ".join(course.failed[:_NAMED])
                words = f"group {group}: too many sites failed ({failed}); all went back"
                hint = (
                    f"why: on that cluster, kubectl -n {self._names.addon} get events; "
                    "then mend the document: another version begins another rollout"
                )
                found.append(Condition("RolledOut", "False", "RolloutHalted", words, hint))
            elif course.state == "progressing":
                who = ", ".join(course.update[:_NAMED]) or "those that changed have yet to report"
                words = f"group {group}: {who}"
                found.append(Condition("RolledOut", "True", "RollingOut", words))
        return found


def _progress(group: Group, template: str, sites: Sequence[Candidate], course: Course) -> Object:
    states = {"progressing": "Progressing", "halted": "RolledBack", "done": "Done"}
    return {
        "rollout": {
            "group": group.name,
            "version": template[-128:],
            "updated": sum(s.current and s.healthy for s in sites),
            "total": len(sites),
            "failed": len(course.failed),
            "state": states[course.state],
        }
    }


def _mark(template: str, group: Group) -> str:
    about = group.model_dump_json(exclude={"placement"})
    return hashlib.sha256(f"{template} {about}".encode()).hexdigest()[:16]


def _age_s(at: str) -> float:
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds()
    except ValueError:
        return 0.0
