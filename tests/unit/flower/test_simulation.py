from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from umbel.exec.simulation import Order
from umbel.flower import simulation
from umbel.flower.simulation import CoresMissing, Job, Raised, Telling, describe

FROM_A_WORKER = """\x1b[36mray::ClientAppActor.run()\x1b[39m (pid=7, ip=127.0.0.1)
           ^^^^^^^^^^^^
  File "/app/client_app.py", line 16, in open_the_data
    raise DataUnreadableError("no data")
client_app.DataUnreadableError: no data

The above exception was the direct cause of the following exception:

\x1b[36mray::ClientAppActor.run()\x1b[39m (pid=7, ip=127.0.0.1)
flwr.clientapp.client_app.ClientAppException: no data"""


def a_job(folder: Path = Path("/tmp/umbel-x")) -> Job:
    return Job(Path("/apps/mine"), folder, nodes=5)


def test_the_order_arrives_as_it_was_sent() -> None:
    order = Order(a_job(), {"rounds": 3, "rate": 0.5, "name": "a b", "fast": True}, 2**63 + 1)
    assert Order.from_json(order.to_json().decode()) == order


def test_ray_is_kept_on_loopback_behind_a_token_and_reports_to_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "ray.example.org:6379")
    monkeypatch.setenv("KEPT", "yes")
    env = simulation.environment(a_job())
    assert "RAY_ADDRESS" not in env  # no cluster of somebody else is joined
    assert env["KEPT"] == "yes"
    assert env["RAY_USAGE_STATS_ENABLED"] == "0"
    assert env["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"
    assert env["RAY_AUTH_MODE"] == "token"
    assert env["RAY_AUTH_TOKEN_PATH"] == str(a_job().token)
    assert env["FLWR_TELEMETRY_ENABLED"] == "0"
    assert env["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert env["FLWR_HOME"].startswith(str(a_job().folder))


def test_the_token_is_private_and_in_no_environment(tmp_path: Path) -> None:
    job = a_job(tmp_path)
    simulation.prepare(job)
    assert job.token.stat().st_mode & 0o777 == 0o600
    secret = job.token.read_text()
    assert len(secret) == 64
    assert not any(secret in value for value in simulation.environment(job).values())


def test_ray_gets_no_more_cores_than_the_nodes_can_use() -> None:
    config = simulation.backend_config(Job(Path("/a"), Path("/f"), nodes=1, cpus=1.0))
    assert config["init_args"]["num_cpus"] == 1
    many = simulation.backend_config(Job(Path("/a"), Path("/f"), nodes=10_000, cpus=1.0))
    assert many["init_args"]["num_cpus"] == simulation.cores()
    assert many["init_args"]["address"] == "local"


def test_more_cores_than_there_are_is_refused_before_anything_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(simulation, "find_spec", lambda name: name)
    with pytest.raises(CoresMissing) as caught:
        simulation.require_ray(simulation.cores() + 1)
    assert str(simulation.cores()) in caught.value.hint
    simulation.require_ray(simulation.cores())


def raise_one(report: list[Raised], error: BaseException) -> None:
    with Telling(report.append, "hub"):
        raise error


def test_what_an_app_raises_is_told_and_goes_on() -> None:
    told: list[Raised] = []
    with pytest.raises(ValueError, match="no data"):
        raise_one(told, ValueError("no data"))
    (raised,) = told
    assert (raised.place, raised.message) == ("hub", "no data")
    assert "raise error" in raised.traceback


@pytest.mark.parametrize(("code", "times"), [(0, 0), (None, 0), (3, 1), ("bad", 1)])
def test_an_app_that_leaves_by_itself_failed_only_if_it_says_so(
    code: int | str | None, times: int
) -> None:
    told: list[Raised] = []
    with pytest.raises(SystemExit):
        raise_one(told, SystemExit(code))
    assert len(told) == times


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What of Ray is needed to tell its exceptions apart."""
    module = ModuleType("ray.exceptions")
    base = type("RayError", (Exception,), {})
    module.RayError = base  # type: ignore[attr-defined]
    module.RayTaskError = type("RayTaskError", (base,), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray.exceptions", module)
    return module


def test_of_a_workers_exception_only_the_apps_part_is_told(ray: ModuleType) -> None:
    raised = describe("node-1", ray.RayTaskError(FROM_A_WORKER))
    assert raised.traceback.splitlines() == [
        "Traceback (most recent call last):",
        '  File "/app/client_app.py", line 16, in open_the_data',
        '    raise DataUnreadableError("no data")',
        "client_app.DataUnreadableError: no data",
    ]


def test_a_worker_that_died_leaves_no_traceback(ray: ModuleType) -> None:
    raised = describe("node-1", ray.RayError("the actor died"))
    assert raised.traceback == ""
    assert "died" in raised.message


def test_nodes_are_named_by_their_partition() -> None:
    assert simulation.node_name(4) == "node-4"
