from __future__ import annotations

import ipaddress

from testbed.pods import dns
from testbed.pods.images import COREDNS


def objects() -> dict[str, dict[str, object]]:
    return {one["kind"]: one for one in dns.objects()}


def test_pods_are_told_the_address_that_the_service_has() -> None:
    service = objects()["Service"]["spec"]
    assert isinstance(service, dict)
    assert service["clusterIP"] == dns.ADDRESS
    assert ipaddress.ip_address(dns.ADDRESS) in ipaddress.ip_network("10.0.0.0/24")
    assert {port["protocol"] for port in service["ports"]} == {"UDP", "TCP"}
    assert {port["targetPort"] for port in service["ports"]} == {dns.PORT}


def test_the_server_runs_from_our_image_without_rights() -> None:
    deployment = objects()["Deployment"]["spec"]
    assert isinstance(deployment, dict)
    (container,) = deployment["template"]["spec"]["containers"]
    assert container["image"] == COREDNS
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert dns.PORT > 1023


def test_the_server_only_looks() -> None:
    rules = objects()["ClusterRole"]["rules"]
    assert isinstance(rules, list)
    assert {verb for rule in rules for verb in rule["verbs"]} == {"list", "watch"}


def test_names_outside_do_not_exist() -> None:
    assert "forward" not in dns.SETTINGS
    assert "rcode NXDOMAIN" in dns.SETTINGS


def test_hosts_that_are_made_known_have_their_address_and_no_other() -> None:
    said = dns.settings({"fleet.example.org": "10.81.0.1"})
    known = said.index('answer "fleet.example.org. 1 IN A 10.81.0.1"')
    assert "template IN AAAA fleet.example.org {" in said
    assert known < said.index("rcode NXDOMAIN")  # asked in this order
    assert dns.settings({}) == dns.SETTINGS


def test_a_server_with_other_settings_starts_anew() -> None:
    def mark(hosts: dict[str, str]) -> object:
        made = {one["kind"]: one for one in dns.objects(hosts)}
        return made["Deployment"]["spec"]["template"]["metadata"]["annotations"][dns.MARK]

    assert mark({}) != mark({"fleet.example.org": "10.81.0.1"})
    assert mark({}) == mark({})
