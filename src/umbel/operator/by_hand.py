"""A federation on managed clusters from a laptop: with an operator on the hub, or without one."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from umbel.engine.engine import Engine, NotReady
from umbel.engine.keeper import UP_TIMEOUT_S, Keeper
from umbel.errors import RequestError
from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.kube.client import Kube, KubeRefused
from umbel.kube.kinds import Kind, Object
from umbel.kube.kubeconfig import Reach
from umbel.model.federation import OWNER, Federation
from umbel.model.plan import Plan
from umbel.model.status import FederationStatus
from umbel.operator import refusing
from umbel.ports import Progress
from umbel.store.memory import MemoryStore
from umbel.targets.ocm import rendering
from umbel.targets.ocm.flower import OcmFlower
from umbel.targets.ocm.identity import ROTATE
from umbel.targets.ocm.install import OPERATOR
from umbel.targets.ocm.names import FINALIZER, Names
from umbel.targets.ocm.settings import OcmSettings
from umbel.targets.ocm.target import OcmTarget
from umbel.targets.ocm.watching import watched

LOOK_S = 3.0  # Flower tells nobody when a node comes online
UNSEEN_S = 15.0  # an operator looks at a new document within seconds
HELD_S = 60.0  # a lease that was renewed so lately is held, whatever the clock here says
FORBIDDEN = 403
LABELLED = f"app.kubernetes.io/name={OPERATOR}"
EVERYTHING = frozenset({"*"})
Changed = Callable[[], Awaitable[bool]]  # waits for a change, or for a while; was there one?


class NotThere(RequestError):
    """The hub knows no such federation."""

    code = "U372"

    def __init__(self, owner: str) -> None:
        super().__init__(
            f"there is no federation {owner} on this hub", hint="kubectl get federations -A"
        )


@dataclass(frozen=True, slots=True)
class Reached:
    """A federation that takes runs, and what it takes to speak to it."""

    status: Mapping[str, Any]
    address: str
    bundle: str
    token: str
    kept: bool  # an operator keeps it
    namespace: str = ""


class Hand:
    """One person's rights on one hub."""

    def __init__(self, kube: Kube, federation: Federation, image: str = "") -> None:
        namespace = federation.metadata.namespace or kube.reach.namespace
        self._kube = kube
        self._names = Names(namespace, federation.name)
        meta = federation.metadata.model_copy(update={"namespace": namespace})
        self._federation = federation.model_copy(update={"metadata": meta})
        chosen = image or OcmSettings().image
        self._settings = OcmSettings(image=chosen, bind=EVERYTHING, dial="endpoint")

    async def up(self, progress: Progress, *, rotate_ca: bool = False) -> Reached:
        """Make the hub as declared; returns when the federation takes runs."""
        if rotate_ca:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            notes = {**self._federation.metadata.annotations, ROTATE: now}
            meta = self._federation.metadata.model_copy(update={"annotations": notes})
            self._federation = self._federation.model_copy(update={"metadata": meta})
        if await self.is_kept():
            return await self._declare(progress)
        progress("no operator keeps federations here: doing it from this machine")
        return await self._do(progress)

    async def is_kept(self) -> bool:
        """Whether an operator keeps this federation, or would; who may not look trusts that one does."""
        if not await self._kube.serves(kinds.FEDERATION):
            return False
        return await self._there() or await self._has_operator()

    async def _has_operator(self) -> bool:
        try:
            found, _ = await self._kube.list(kinds.DEPLOYMENT, labels=LABELLED)
            lease = await self._kube.get(kinds.LEASE, OPERATOR, self._settings.system)
        except KubeRefused as error:
            if error.status != FORBIDDEN:
                raise
            return True
        if found:
            return any(_keeps(one, self._names.namespace) for one in found)
        return lease is not None and _is_held(lease)  # one that runs outside of the hub

    async def _declare(self, progress: Progress) -> Reached:
        """Hand the document to the operator, and watch what it makes of it."""
        for content in rendering.federation_objects(self._federation):
            if content["kind"] == "Federation":
                try:
                    made = await self._put(content)
                except KubeRefused as error:
                    raise refusing.told(error) from error
            else:
                await self._offer(content)
        names, told = self._names, ""
        generation = made["metadata"]["generation"]
        unseen = f"no operator has looked at it yet: kubectl get deployments -A -l {LABELLED}"
        warning = asyncio.get_running_loop().call_later(UNSEEN_S, progress, unseen)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(UP_TIMEOUT_S):
                async for seen in self._seen():
                    status = seen.get("status") or {}
                    if status.get("observedGeneration") != generation:
                        continue
                    warning.cancel()
                    first = (status.get("conditions") or [{}])[0]
                    if status.get("phase") == "Ready" and not _goes_on(status):
                        return await self._reached(status, kept=True)
                    refusing.assert_waitable(status)
                    if first.get("message", "") != told:
                        told = first.get("message", "")
                        progress(told)
        raise NotReady(names.name, told or "no operator has looked at it yet", UP_TIMEOUT_S)

    async def _offer(self, content: Object) -> None:
        """Have a namespace or a binding; who may not make one relies on who did."""
        try:
            await self._kube.create(content)
        except KubeRefused as error:
            if error.status != FORBIDDEN:
                raise

    async def _put(self, content: Object) -> Object:
        """Have the document so, whoever wrote it before: nothing of the former spec stays."""
        meta = content["metadata"]
        while True:
            found = await self._kube.get(kinds.FEDERATION, meta["name"], meta["namespace"])
            if found is None:
                made = await self._kube.create(content)
            else:
                notes = {**found["metadata"].get("annotations", {}), **meta.get("annotations", {})}
                changed = {**found["metadata"], "annotations": notes}
                made = await self._kube.replace({**content, "metadata": changed})
            if made is not None:  # else somebody else was faster: look again
                return made

    async def _seen(self) -> AsyncIterator[Object]:
        names = self._names
        found, version = await self._kube.list(kinds.FEDERATION, names.namespace)
        for content in found:
            if content["metadata"]["name"] == names.name:
                yield content
        while True:
            watch = self._kube.watch(kinds.FEDERATION, version, names.namespace)
            async for _, content in watch:
                version = content["metadata"]["resourceVersion"]
                if content["metadata"].get("name") == names.name:
                    yield content

    async def _do(self, progress: Progress) -> Reached:
        for content in rendering.federation_objects(self._federation):
            if content["kind"] == "Namespace":
                await self._kube.create(content)
        system = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": self._settings.system},
        }
        await self._kube.create(system)
        async with self._house() as (keeper, target, changed):
            await target.volume.settle(self._federation)  # here a mistake ends it at once
            status = await self._settled(keeper, target, changed, progress)
            return await self._reached(asdict(status), kept=False)

    async def _settled(
        self, keeper: Keeper, target: OcmTarget, changed: Changed, progress: Progress
    ) -> FederationStatus:
        """Look until it takes runs and nothing happens any more: nobody looks when we are gone."""
        deadline_s = time.monotonic() + UP_TIMEOUT_S

        async def wait() -> None:
            await changed()

        while True:
            status = await keeper.up(self._federation, progress, wait)
            await target.publish(status)
            quiet = not await changed() and not target.undecided_s
            if quiet and not _goes_on(asdict(status)):
                return status
            if time.monotonic() > deadline_s:
                raise NotReady(
                    self._names.name, "a change is still on its way to some sites", UP_TIMEOUT_S
                )

    @contextlib.asynccontextmanager
    async def _house(self) -> AsyncIterator[tuple[Keeper, OcmTarget, Changed]]:
        woken = asyncio.Event()

        def tell(_: Kind, __: Object) -> None:
            woken.set()

        async def changed() -> bool:
            """Wait until something changed, or for a while; says whether something did."""
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await woken.wait()
            found = woken.is_set()
            woken.clear()
            return found

        cache = Cache(self._kube, watched(), tell)
        watching = asyncio.create_task(cache.run())
        try:
            await cache.filled()
            store = MemoryStore()
            target = OcmTarget(self._kube, cache, store, self._names, self._settings)
            self.engine = Engine(store, target, OcmFlower(target.desk))
            yield Keeper(self.engine, target, store), target, changed
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def plan(self) -> Plan:
        """Say what up would do, as far as it can be seen. Changes nothing."""
        async with self._house() as (_, target, __):
            more = await target.predict(self._federation)
            found = await self.engine.plan(self._federation)
            return replace(found, steps=(*found.steps, *more))

    async def down(self, progress: Progress, *, keep_data: bool) -> None:
        """Take the federation off the hub and the clusters; returns when it is gone."""
        declared = await self._kube.serves(kinds.FEDERATION) and await self._there()
        if declared:
            kept = await self._has_operator()
            await self._withdraw(keep_data=keep_data)
            if kept:
                progress("the operator takes it apart")
                while await self._there():  # noqa: ASYNC110  # another process does the work
                    await asyncio.sleep(1)
                return
            progress("no operator keeps federations here: taking it apart from this machine")
        async with self._house() as (_, target, changed):
            while waiting := await target.dismantle(keep_data=keep_data):
                progress(f"waiting for: {waiting}")
                await changed()
        if declared:
            await self._let_go()

    async def _withdraw(self, *, keep_data: bool) -> None:
        """Delete the document; it is there until somebody has taken the federation apart."""
        names = self._names
        if keep_data:
            note = {"metadata": {"annotations": {"umbel.dev/keep-data": "true"}}}
            await self._kube.merge(kinds.FEDERATION, names.name, names.namespace, note)
        await self._kube.delete(kinds.FEDERATION, names.name, names.namespace)

    async def _let_go(self) -> None:
        """Do the operator's last step: nothing of the federation is left."""
        names = self._names
        found = await self._kube.get(kinds.FEDERATION, names.name, names.namespace)
        if found is not None:
            left = [one for one in found["metadata"].get("finalizers") or () if one != FINALIZER]
            change = {"metadata": {"finalizers": left}}
            await self._kube.merge(kinds.FEDERATION, names.name, names.namespace, change)

    async def _there(self) -> bool:
        names = self._names
        return await self._kube.get(kinds.FEDERATION, names.name, names.namespace) is not None

    async def _reached(self, status: Mapping[str, Any], *, kept: bool) -> Reached:
        names = self._names
        secret = await self._kube.get(kinds.SECRET, names.user_secret(OWNER), names.namespace)
        if secret is None:
            raise NotThere(names.owner)
        data = {k: base64.b64decode(v).decode() for k, v in secret["data"].items()}
        address = str(status["endpoint"]["control"])
        token = data["token"].strip()
        return Reached(status, address, data["ca.crt"], token, kept, names.namespace)


def _keeps(deployment: Object, namespace: str) -> bool:
    """Whether an operator that is installed so is meant to run, and looks at this namespace."""
    spec = deployment["spec"]
    told = {
        one["name"]: one.get("value", "")
        for container in spec["template"]["spec"]["containers"]
        for one in container.get("env") or ()
    }
    watched_spaces = [n for n in told.get("UMBEL_WATCH_NAMESPACES", "").split(",") if n]
    runs = spec.get("replicas", 1) > 0
    return runs and (not watched_spaces or namespace in watched_spaces)


def _is_held(lease: Object) -> bool:
    renewed = lease["spec"].get("renewTime")
    if not renewed or not lease["spec"].get("holderIdentity"):
        return False
    return datetime.now(UTC) - datetime.fromisoformat(renewed) < timedelta(seconds=HELD_S)


def _goes_on(status: Mapping[str, Any]) -> bool:
    """Whether a change is still on its way to some sites."""
    return any(c["reason"] == "RollingOut" for c in status.get("conditions") or ())


@contextlib.asynccontextmanager
async def hand(reach: Reach, federation: Federation, image: str = "") -> AsyncIterator[Hand]:
    """Open a conversation with the hub."""
    async with Kube(reach) as kube:
        yield Hand(kube, federation, image)
