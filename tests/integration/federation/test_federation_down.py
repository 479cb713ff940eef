"""A person takes federations down and brings them back; two of them live side by side."""

from __future__ import annotations

import socket
import ssl
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tests.integration.federation.expiry import expire

if TYPE_CHECKING:
    from tests.integration.federation.conftest import Home

USUAL_PORTS = (9091, 9092, 9093)
ONE_SITE = [{"name": "local", "sites": 1}]


def ports_of(status: Any) -> list[int]:
    return [int(address.rpartition(":")[2]) for address in status["endpoint"].values()]


def hold(stack: ExitStack, port: int) -> None:
    """Hold a port; whether by us or by somebody else, it is taken then."""
    sock = stack.enter_context(socket.socket())
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(("127.0.0.1", port))
        sock.listen()
    except OSError:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()


def certificate_at(port: int) -> str:
    """Give the certificate that is shown at a port; none if nobody is there."""
    try:
        return ssl.get_server_certificate(("127.0.0.1", port), timeout=10)
    except ConnectionRefusedError:
        return ""


def test_two_ups_at_once_end_well_and_down_leaves_nothing(new_home: Home) -> None:
    """With the usual ports taken by others, so that free ones are chosen."""
    document = str(new_home.write("twice", groups=ONE_SITE))
    with ExitStack() as stack:
        for port in USUAL_PORTS:
            hold(stack, port)
        both = [new_home.begin("umbel", "up", "-f", document) for _ in range(2)]
        told = [process.communicate()[1] for process in both]
        assert [process.returncode for process in both] == [0, 0], told
    assert sorted("nothing to do" in words for words in told) == [False, True]
    assert len(new_home.units("twice")) == 5
    assert [p.role for p in new_home.processes()].count("daemon") == 1
    ports = ports_of(new_home.status("twice"))
    assert not set(ports) & set(USUAL_PORTS)
    served = {port: certificate_at(port) for port in ports}
    assert all(served.values())

    new_home.kill(new_home.pid_of("nursery"))
    new_home.kill(new_home.pid_of("daemon"))
    said = new_home.umbel("down").ok()
    assert "twice is down" in said.err
    assert new_home.processes() == []
    for port in ports:  # nobody is there, or a federation of somebody else by now
        assert certificate_at(port) != served[port]
    left = [p for p in new_home.path.rglob("*") if p.suffix in (".key", ".token", ".secret")]
    assert left == []
    new_home.umbel("status").refused(1, "U226")


def test_of_two_federations_one_must_be_named(lab: Home) -> None:
    said = lab.umbel("status").refused(2, "U329")
    assert "lab, other" in said.err
    named = lab.umbel("status", "-o", "json", env={"UMBEL_FEDERATION": "other"}).ok()
    assert named.data["name"] == "other"


def test_two_federations_share_nothing(lab: Home) -> None:
    one, two = lab.status("lab"), lab.status("other")
    assert not set(ports_of(one)) & set(ports_of(two))
    assert one["sites"][0]["fingerprint"] != two["sites"][0]["fingerprint"]
    authorities = [(lab.folder(n) / "ca" / "ca.crt").read_bytes() for n in ("lab", "other")]
    assert authorities[0] != authorities[1]
    assert not set(lab.units("lab").values()) & set(lab.units("other").values())


def test_kept_data_gives_the_same_federation_again_and_no_data_a_new_one(lab: Home) -> None:
    document = str(lab.path.parent / f"{lab.path.name}-other.yaml")

    def known() -> tuple[Any, ...]:
        site = lab.status("other")["sites"][0]
        authority = (lab.folder("other") / "ca" / "ca.crt").read_bytes()
        return authority, site["node_id"], site["fingerprint"], site["partition_id"]

    first, untouched = known(), lab.units("lab")
    said = lab.umbel("down", "-n", "other", "--keep-data").ok()
    assert "kept:" in said.err
    assert lab.units("other") == {}
    lab.umbel("up", "-f", document).ok()
    assert known() == first
    lab.umbel("down", "-n", "other").ok()
    assert not (lab.folder("other") / "ca").exists()
    lab.umbel("up", "-f", document).ok()
    again = known()
    assert again[0] != first[0]
    assert again[2] != first[2]
    assert lab.units("lab") == untouched


def test_an_ended_certificate_is_renewed_and_the_gate_serves_it_without_a_restart(
    lab: Home,
) -> None:
    hub, before = lab.folder("lab") / "hub", lab.units("lab")
    port = int(lab.status("lab")["endpoint"]["control"].rpartition(":")[2])
    expire(lab.folder("lab") / "ca", hub)
    said = lab.umbel("status", "-n", "lab")
    assert said.code == 1
    assert "gate ended on" in said.out
    assert "umbel up renews it" in said.out
    document = str(lab.path.parent / f"{lab.path.name}-lab.yaml")
    lab.umbel("up", "-f", document).ok()
    assert lab.units("lab") == before
    served = ssl.get_server_certificate(("127.0.0.1", port), timeout=10)
    assert served.strip() == (hub / "server.crt").read_text().strip()
    lab.umbel("status", "-n", "lab").ok()
