"""The operator's process: settings from its environment, probes, the lease, the loop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from umbel import __version__
from umbel.errors import UmbelError
from umbel.kube import kubeconfig
from umbel.kube.client import Kube
from umbel.operator.leading import Leader, LeaseLost
from umbel.operator.loop import Loop
from umbel.operator.probes import METRICS_PORT, PROBES_PORT, Probes
from umbel.targets.ocm.settings import OcmSettings

log = logging.getLogger("umbel.operator")
LEASE = "umbel-operator"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the operator is told by its environment."""

    system: str
    image: str
    identity: str
    kubeconfig: Path | None
    dial: str
    context: str = ""
    bind: frozenset[str] = frozenset()
    spread_s: float = 120.0
    namespaces: tuple[str, ...] = ()
    probes_port: int = PROBES_PORT
    metrics_port: int = METRICS_PORT

    @classmethod
    def read(cls, env: Mapping[str, str]) -> Surroundings:
        """Take what is set, else what fits a pod."""
        chosen = env.get("UMBEL_KUBECONFIG")
        return cls(
            system=env.get("UMBEL_NAMESPACE") or "umbel-system",
            image=env.get("UMBEL_IMAGE") or f"umbel:{__version__}",
            identity=env.get("HOSTNAME") or socket.gethostname(),
            kubeconfig=Path(chosen) if chosen else None,
            dial=env.get("UMBEL_DIAL") or "service",
            namespaces=tuple(n for n in env.get("UMBEL_WATCH_NAMESPACES", "").split(",") if n),
            spread_s=float(env.get("UMBEL_SPREAD_SECONDS") or 120),
            bind=frozenset(env.get("UMBEL_BIND_CLUSTER_SETS", "").split(",")) - {""},
            probes_port=int(env.get("UMBEL_PROBES_PORT") or PROBES_PORT),
            metrics_port=int(env.get("UMBEL_METRICS_PORT") or METRICS_PORT),
        )


async def serve(around: Surroundings) -> int:
    """Wait for the lease, then keep federations until told to end."""
    reach = kubeconfig.find(around.kubeconfig, around.context or None)
    settings = OcmSettings(
        system=around.system,
        image=around.image,
        bind=around.bind,
        spread_s=around.spread_s,
        namespaces=around.namespaces,
        dial="endpoint" if around.dial == "endpoint" else "service",
    )
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with Kube(reach) as kube:
        keeping = Loop(kube, settings, around.identity)
        leader = Leader(kube, around.system, LEASE, around.identity)
        async with Probes(keeping, kube, around.probes_port, around.metrics_port):
            work = asyncio.create_task(_lead(leader, keeping))
            end = asyncio.create_task(ended.wait())
            await asyncio.wait((work, end), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                end.cancel()
                return _verdict(work)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            await leader.give_up()
    return 0


def _verdict(work: asyncio.Task[None]) -> int:
    error = work.exception()
    log.error("the operator ends", exc_info=error)
    return 1


async def _lead(leader: Leader, keeping: Loop) -> None:
    await leader.become()
    async with asyncio.TaskGroup() as group:
        group.create_task(leader.stay())
        group.create_task(keeping.run())


def main(chosen: Path | None = None, context: str = "") -> int:
    """Run until told to end; gives the exit status."""
    level = os.environ.get("UMBEL_LOG_LEVEL", "info").upper()
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        around = Surroundings.read(os.environ)
        around = replace(around, kubeconfig=chosen or around.kubeconfig, context=context)
        return asyncio.run(serve(around))
    except LeaseLost:
        log.exception("the lease is lost")
        return 1
    except UmbelError as error:
        log.error("%s (%s)", error, error.hint)  # noqa: TRY400  # the fact is enough
        return error.exit_status
