from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.integration.gate.conftest import Own, Site

LIST = "/v1/control/list-runs"


async def test_people_strangers_and_comings_are_written_and_traffic_is_not(
    own: Own, north: Site
) -> None:
    gate, _ = await own()
    await gate.ask("control", LIST, gate.user("viewer"), b"four")
    await gate.ask("control", "/v1/control/start-run", gate.user("viewer"))
    await gate.ask("fleet", "/v1/fleet/activate-node", north.headers())
    await gate.ask("fleet", "/v1/fleet/pull-messages", north.headers())
    await gate.ask("runtime", "/v1/runtime/get-nodes", gate.task)
    await gate.ask("fleet", "/v1/fleet/deactivate-node", north.headers())
    for _ in range(10):
        await gate.ask("control", LIST, {"authorization": "Bearer guess"})
    assert await asyncio.to_thread(gate.stop) == 0
    lines = gate.audit()
    told = [(x.get("door"), x["who"], x["what"], x.get("status"), x.get("times")) for x in lines]
    assert told == [
        (None, "gate", "gate started", None, None),
        ("control", "user:the-viewer", "control/list-runs", 200, None),
        ("control", "user:the-viewer", "control/start-run", 403, None),
        ("fleet", "site:north", "fleet/activate-node", 200, None),
        ("fleet", "site:north", "fleet/deactivate-node", 200, None),
        ("control", "stranger", "control/list-runs", 401, None),
        ("control", "stranger", "control/list-runs", 401, 9),
        (None, "gate", "gate stopped", None, None),
    ]
    assert (lines[1]["bytes_in"], lines[1]["bytes_out"], lines[1]["peer"]) == (4, 4, "127.0.0.1")
    assert lines[1]["ms"] > 0
    assert lines[1]["at"].endswith("Z")
    assert lines[7]["requests"] == {"control": 12, "fleet": 3, "runtime": 1}


async def test_no_secret_and_no_word_of_a_stranger_is_written(own: Own, north: Site) -> None:
    gate, _ = await own()
    signed = north.headers()
    await gate.ask("control", LIST, gate.user("admin"), b"the-body")
    await gate.ask("fleet", "/v1/fleet/activate-node", signed)
    await gate.ask("fleet", "/secret-path", signed | {"flwr-signature": "c2VjcmV0"})
    await gate.ask("control", "/secret-path?secret-token", {"authorization": "Bearer secret-guess"})
    await gate.say("control", b"POST /secret HTTP/1.1\r\nsecret-header: secret-value\r\n\r\n")
    gate.process.terminate()
    _, said = await asyncio.to_thread(gate.process.communicate)
    text = (gate.folder / "audit.jsonl").read_text() + said.decode()
    for secret in ("secret", "Bearer", "the-body", *gate.user("admin").values(), *signed.values()):
        assert secret not in text


async def test_nobody_else_reads_it(own: Own) -> None:
    gate, _ = await own()
    await gate.ask("control", LIST, gate.user("viewer"))
    assert (gate.folder / "audit.jsonl").stat().st_mode & 0o777 == 0o600


async def test_on_a_full_disk_sites_go_on_and_people_wait(own: Own, north: Site) -> None:
    gate, upstream = await own(audit="/dev/full")
    answer = await gate.ask("control", LIST, gate.user("admin"))
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert (await gate.ask("control", LIST)).raw == gate.strangers_answer
    assert upstream.seen == []
    assert (await gate.ask("fleet", "/v1/fleet/activate-node", north.headers())).status == 200


async def test_old_audit_files_are_kept_beside(own: Own) -> None:
    gate, _ = await own(auditBytes=2000, auditFiles=2)
    client = await gate.connect("control")
    for _ in range(40):
        await client.send(gate.request(LIST, b"", gate.user("viewer")))
        assert (await client.answer()).status == 200
    older = gate.folder / "audit.jsonl.1"
    assert [json.loads(line)["status"] for line in older.read_text().splitlines()]
    assert not (gate.folder / "audit.jsonl.2").exists()
