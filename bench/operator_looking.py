"""What the bench of the operator looks at: objects, requests, the time that something takes."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from testbed.api import Api

from umbel.kube import kinds
from umbel.kube.client import Kube
from umbel.kube.kinds import Kind
from umbel.targets.ocm.watching import OWN_KINDS

PATIENCE_S = 900.0
WATCHED = (kinds.FEDERATION, *OWN_KINDS, kinds.DECISION, kinds.WORK)
WRITES = ("POST", "PUT", "PATCH", "APPLY", "DELETE")


def tell(words: str) -> None:
    """Say what happens, beside the result."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {words}\n")


async def until(what: str, holds: Callable[[], Any]) -> float:
    """Wait for something; gives how long it took."""
    began_s = time.monotonic()
    told_s = began_s
    while (missing := await holds()) is not True:
        await asyncio.sleep(0.25)
        if time.monotonic() - began_s > PATIENCE_S:
            raise TimeoutError(what)
        if time.monotonic() - told_s > 10:
            told_s = time.monotonic()
            tell(f"… {what}: {missing}")
    return time.monotonic() - began_s


async def count(kube: Kube, kind: Kind) -> int:
    """Count the objects of a kind without reading them."""
    answer = await kube._ask("GET", kind.path(), query={"limit": "1"})  # noqa: SLF001
    here = len(answer.get("items") or ())
    return here + int(answer["metadata"].get("remainingItemCount") or 0)


def served(api: Api) -> Counter[str]:
    """Read how often the API server was asked to change something, by resource."""
    text = api._http.get("/metrics").text  # noqa: SLF001
    found: Counter[str] = Counter()
    for line in text.splitlines():
        if not line.startswith("apiserver_request_total{"):
            continue
        labels, _, value = line.removeprefix("apiserver_request_total{").rpartition("} ")
        about = dict(part.partition("=")[::2] for part in labels.split('",'))
        about = {key: text.strip('"') for key, text in about.items()}
        if about["verb"] in WRITES and about["code"].startswith("2"):
            sub = f"/{about['subresource']}" if about.get("subresource") else ""
            found[about["resource"] + sub] += int(float(value))
    return found


async def versions(kube: Kube) -> dict[tuple[str, str, str], str]:
    """Give the version of every object that the operator looks at."""
    found = {}
    for kind in WATCHED:
        for content in (await kube.list(kind))[0]:
            meta = content["metadata"]
            key = (kind.name, meta.get("namespace", ""), meta["name"])
            found[key] = meta["resourceVersion"]
    return found


def works(kube: Kube, size: int) -> Callable[[], Any]:
    """Say when there are so many works."""

    async def there() -> bool | str:
        found = await count(kube, kinds.WORK)
        if found >= size:
            return True
        given = await count(kube, kinds.ADDON_CONFIG), await count(kube, kinds.INSTALLED)
        return f"{given[0]} configs, {given[1]} installed, {found} works"

    return there
