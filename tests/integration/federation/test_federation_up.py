"""A person brings a federation up, looks at it, and repeats the command."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from tests.integration.federation.conftest import First, Home

ESCAPE = "\x1b"


def test_up_without_a_document_gives_three_sites_that_are_online(first: First) -> None:
    rows = [line.split() for line in first.said.out.splitlines()]
    assert rows[0][:4] == ["SITE", "GROUP", "STATE", "PARTITION"]
    assert [row[:4] for row in rows[1:]] == [
        ["local-1", "local", "online", "0"],
        ["local-2", "local", "online", "1"],
        ["local-3", "local", "online", "2"],
    ]
    assert "local is ready." in first.said.err
    assert "umbel run" in first.said.err


def test_up_again_says_nothing_to_do_and_starts_nothing(shared: Home) -> None:
    before = {p.pid for p in shared.processes() if p.unit or p.role}
    said = shared.umbel("up").ok()
    assert "local: nothing to do" in said.err
    assert {p.pid for p in shared.processes() if p.unit or p.role} == before


def test_every_unit_is_a_process_of_its_own(shared: Home) -> None:
    assert sorted(shared.units()) == [
        "hub/gate",
        "hub/server-exec",
        "hub/superlink",
        "local-1/client-exec",
        "local-1/supernode",
        "local-2/client-exec",
        "local-2/supernode",
        "local-3/client-exec",
        "local-3/supernode",
    ]


def test_status_says_that_all_is_well(shared: Home) -> None:
    said = shared.umbel("status").ok()
    assert re.search(r"phase +Ready", said.out)
    for words in ("HubAvailable +True", "CertificatesValid +True", "SitesOnline +True"):
        assert re.search(words, said.out), said.out
    assert said.err == ""


def test_status_as_data_is_the_model_and_nothing_else(shared: Home) -> None:
    said = shared.umbel("status", "-o", "json").ok()
    assert said.err == ""
    found = said.data
    assert (found["name"], found["phase"]) == ("local", "Ready")
    assert found["conditions"][0]["type"] == "Ready"
    assert {s["state"] for s in found["sites"]} == {"online"}
    assert len({s["node_id"] for s in found["sites"]} - {""}) == 3
    assert {c["name"] for c in found["certificates"]} >= {"ca", "gate", "local-1"}
    assert all(c["days_left"] > 0 for c in found["certificates"])
    assert found["versions"]["flower"].startswith("1.4")
    same = yaml.safe_load(shared.umbel("status", "-o", "yaml").ok().out)
    assert set(same) == set(found)


def test_wide_shows_nodes_keys_and_every_certificate(shared: Home) -> None:
    said = shared.umbel("status", "-o", "wide").ok()
    found = shared.status()
    assert found["sites"][0]["node_id"] in said.out
    assert found["sites"][0]["fingerprint"][:16] in said.out
    assert re.search(r"^local-3 +20\d\d-", said.out, re.MULTILINE)


@pytest.mark.parametrize("command", [("up",), ("plan",), ("status",), ("runs",)])
def test_as_json_there_is_nothing_but_json_on_stdout(
    shared: Home, command: tuple[str, ...]
) -> None:
    said = shared.umbel(*command, "-o", "json").ok()
    json.loads(said.out)
    assert ESCAPE not in said.out + said.err


def test_talk_goes_to_stderr_and_data_to_stdout(shared: Home) -> None:
    said = shared.umbel("up").ok()
    assert "identity" in said.err
    assert "identity" not in said.out
    assert said.out.startswith("SITE")


def test_a_plan_of_what_is_there_has_nothing_to_do(shared: Home) -> None:
    said = shared.umbel("plan").ok()
    assert "nothing to do" in said.err
    assert set(re.findall(r"^ *(\w+) +\S+/\S+", said.out, re.MULTILINE)) == {"keep"}


def test_a_plan_for_more_sites_has_changes_and_changes_nothing(shared: Home) -> None:
    document = shared.write("local", groups=[{"name": "local", "sites": 4}])
    before = shared.units()
    said = shared.umbel("plan", "-f", str(document))
    assert said.code == 10
    assert re.search(r"\+ create +local-4/supernode +does not exist", said.out)
    assert "umbel up makes them" in said.err
    assert shared.units() == before


def test_a_plan_that_the_world_outran_is_refused(shared: Home) -> None:
    document = shared.write("local", groups=[{"name": "local", "sites": 4}])
    said = shared.umbel("up", "-f", str(document), "--basis", "0123456789abcdef")
    assert said.code == 2
    assert "error[U320]" in said.err
    assert len(shared.units()) == 9


def test_an_unknown_federation_is_told_with_those_that_are_there(shared: Home) -> None:
    for command in ("status", "down"):
        said = shared.umbel(command, "-n", "nope")
        assert said.code == 2
        assert "error[U321]" in said.err
        assert "there are: local" in said.err


def test_a_site_keeps_its_partition_when_it_goes_and_comes_back(shared: Home) -> None:
    """The removed site is a stranger: its key is destroyed, and nobody knows it any more."""
    before = {s["name"]: s for s in shared.status()["sites"]}
    shared.umbel("scale", "local", "2").ok()
    roster = (shared.folder() / "hub" / "sites.json").read_text()
    assert before["local-3"]["fingerprint"] not in roster
    assert before["local-1"]["fingerprint"] in roster
    assert not (shared.folder() / "sites" / "local-3" / "node.key").exists()
    assert not [unit for unit in shared.units() if unit.startswith("local-3/")]
    said = shared.umbel("scale", "local", "3", "-o", "json").ok()
    after = {s["name"]: s for s in said.data["sites"]}
    assert {n: s["partition_id"] for n, s in after.items()} == {
        "local-1": 0,
        "local-2": 1,
        "local-3": 2,
    }
    assert after["local-3"]["fingerprint"] != before["local-3"]["fingerprint"]
    assert after["local-3"]["node_id"] != before["local-3"]["node_id"]
    assert {n: after[n]["node_id"] for n in ("local-1", "local-2")} == {
        n: before[n]["node_id"] for n in ("local-1", "local-2")
    }


def test_scaling_what_is_not_there_is_refused(shared: Home) -> None:
    shared.umbel("scale", "nope", "2").refused(2, "U322")
    shared.umbel("scale", "local", "1001").refused(2, "U328")
