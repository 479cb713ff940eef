from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from umbel.remote import (
    AddressInvalid,
    ConnectionDamaged,
    NameUnsafe,
    Remote,
    RemoteClient,
)


def at(address: str) -> Remote:
    return Remote(address, Path("/none/ca.crt"), Path("/none/token"))


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("fl.example.org:9093", ("fl.example.org", 9093)),
        ("127.0.0.1:1", ("127.0.0.1", 1)),
        ("[2001:db8::1]:9093", ("2001:db8::1", 9093)),
    ],
)
def test_an_address_is_a_host_and_a_port(address: str, place: tuple[str, int]) -> None:
    assert at(address).place() == place


@pytest.mark.parametrize(
    "address",
    ["", "host", "host:", ":9093", "host:0", "host:65536", "https://host:1", "a b:1", "host:1\r\n"],
)
def test_what_is_none_is_told(address: str) -> None:
    with pytest.raises(AddressInvalid):
        at(address).place()


def test_missing_or_wrong_files_are_told(tmp_path: Path, authority: bytes) -> None:
    remote = Remote("h:1", tmp_path / "ca.crt", tmp_path / "token")
    with pytest.raises(ConnectionDamaged, match="No such file"):
        RemoteClient(remote)
    remote.ca.write_text("hello")
    with pytest.raises(ConnectionDamaged, match="no certificate"):
        RemoteClient(remote)
    remote.ca.write_bytes(authority)
    RemoteClient(remote)
    with pytest.raises(ConnectionDamaged, match="No such file"):
        remote.token()


@pytest.mark.parametrize("content", [b"", b"two words", b"\xff\xfe", b"a\nb", b"a\x00b"])
def test_what_is_no_token_is_never_sent(content: bytes, tmp_path: Path) -> None:
    remote = Remote("h:1", tmp_path / "ca.crt", tmp_path / "token")
    remote.token_file.write_bytes(content)
    with pytest.raises(ConnectionDamaged, match="not a token"):
        remote.token()


class Hub(RemoteClient):
    """A hub that names files as it likes."""

    def __init__(self, *paths: str) -> None:
        self._paths = paths
        self.fetched: list[Path] = []

    def files(self, name: str, run: str) -> list[Any]:
        assert (name, run) == ("lab", "7")
        return [{"path": path, "size": 1} for path in self._paths]

    def _download(self, path: str, goal: Path, size: int) -> None:
        assert path.startswith("/v1/federations/lab/runs/7/files/")
        assert size == 1
        self.fetched.append(goal)


def test_files_go_below_the_folder(tmp_path: Path) -> None:
    hub = Hub("model.npz", "out/a b.csv")
    assert hub.pull("lab", "7", tmp_path) == [tmp_path / "model.npz", tmp_path / "out" / "a b.csv"]
    assert (tmp_path / "out").is_dir()


@pytest.mark.parametrize(
    "path", ["../x", "/etc/x", "a/../../x", "a//x", "", ".", "a\\..\\x", "a\0"]
)
def test_a_hub_cannot_write_elsewhere(path: str, tmp_path: Path) -> None:
    hub = Hub(path)
    with pytest.raises(NameUnsafe):
        hub.pull("lab", "7", tmp_path / "into")
    assert hub.fetched == []
