"""A mistake of the document ends `umbel up` at once; what time heals does not."""

from __future__ import annotations

from typing import Any

import pytest

from umbel.documents import DocumentInvalid
from umbel.errors import Relayed
from umbel.kube.client import KubeRefused
from umbel.operator import tenant
from umbel.operator.refusing import DocumentRefused, assert_waitable, told


def status(message: str, **more: str) -> dict[str, Any]:
    condition = {"type": "Ready", "status": "False", "reason": "Because", "message": message}
    return {"conditions": [condition | more]}


@pytest.mark.parametrize("code", ["U148", "U396"])
def test_a_mistake_is_raised_with_its_hint(code: str) -> None:
    with pytest.raises(Relayed) as caught:
        assert_waitable(status(f"{code} it is wrong: so. Hint: mend it"))
    found = caught.value
    assert (found.code, found.exit_status, found.title) == (code, 2, "Because")
    assert (found.fact, found.hint) == ("it is wrong: so.", "mend it")


@pytest.mark.parametrize(
    "harmless",
    [
        {},
        {"conditions": None},
        status("0 of 2 online; not: a, b"),
        status("U254 the API server does not answer"),
        status("U148 it was wrong", status="True"),
    ],
)
def test_everything_else_is_waited_for(harmless: dict[str, Any]) -> None:
    assert_waitable(harmless)


def test_what_an_api_server_finds_invalid_is_an_error_of_the_document() -> None:
    refused = KubeRefused("PUT /apis/x", 422, "Invalid", "spec: a volume cannot shrink")
    found = told(refused)
    assert isinstance(found, DocumentRefused)
    assert found.exit_status == 2
    assert found.fact == "the hub does not take the document: spec: a volume cannot shrink"
    other = KubeRefused("PUT /apis/x", 403, "Forbidden", "no")
    assert told(other) is other


def test_mistakes_of_a_resource_are_told_by_their_fields_and_not_by_lines() -> None:
    spec = {"superlink": {"on": "ocm", "listen": "::"}, "groups": [{"name": "a", "on": "join"}]}
    held = {"metadata": {"name": "a", "namespace": "b"}, "spec": spec}
    with pytest.raises(DocumentInvalid) as caught:
        tenant.read(held)
    said = tenant._judged(caught.value)
    assert said.message.startswith("U100 spec.superlink.listen: ")
    assert "; spec.groups[0].on: " in said.message
    assert "federation.yaml" not in said.message
    with pytest.raises(Relayed):
        assert_waitable(status(said.message))
