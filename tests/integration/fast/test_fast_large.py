"""Large objects are files beside the database."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from flwr.app import ArrayRecord
from flwr.supercore.object_store import NoObjectInStoreError
from flwr.supercore.object_store.sql_object_store import SqlObjectStore
from flwr.supercore.sql_mixin import SqlMixin

from umbel.flower.fast import large, light

if TYPE_CHECKING:
    from tests.integration.fast.conftest import Contents, Link


@pytest.fixture(autouse=True)
def in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("put", "get", "delete", "initialize"):
        monkeypatch.setattr(SqlObjectStore, name, getattr(SqlObjectStore, name))
    monkeypatch.setattr(SqlMixin, "session", light.session_of_both_kinds(SqlMixin.session))
    large.install()


@pytest.fixture
def big(link: Link) -> Any:
    return link.made(ArrayRecord([np.random.default_rng(1).random(40_000)]))


def files(link: Link) -> list[Path]:
    folder = large.folder_of(link.state.object_store)
    assert folder is not None
    return sorted(folder.iterdir())


def pushed(link: Link, message: Any, contents: Contents) -> dict[str, bytes]:
    session = link.announced(message)
    objects = contents(message)
    for object_id, body in objects.items():
        assert link.state.store_object(link.run_id, session, object_id, body)
    return objects


def test_a_large_object_comes_back_as_it_was(link: Link, big: Any, contents: Contents) -> None:
    objects = pushed(link, big, contents)

    (file,) = files(link)
    assert file.stat().st_size > large.LARGE_BYTES
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    for object_id, body in objects.items():
        assert link.state.get_object(link.run_id, object_id) == body


def test_its_file_goes_with_its_message(link: Link, big: Any, contents: Contents) -> None:
    pushed(link, big, contents)

    link.node_confirms(big.metadata.message_id)

    assert files(link) == []


def test_its_file_stays_when_the_deletion_is_undone(
    link: Link, big: Any, contents: Contents
) -> None:
    objects = pushed(link, big, contents)

    with link.state.session() as session:
        link.state.object_store.delete(big.metadata.message_id)
        session.rollback()

    assert len(files(link)) == 1
    assert all(link.state.get_object(link.run_id, i) == body for i, body in objects.items())


def test_it_is_there_after_a_restart_and_strays_are_not(
    link: Link, big: Any, contents: Contents
) -> None:
    objects = pushed(link, big, contents)
    (kept,) = files(link)
    (kept.parent / "stray").write_bytes(b"left by a crash")

    link.restart()

    assert files(link) == [kept]
    assert all(link.state.get_object(link.run_id, i) == body for i, body in objects.items())


def test_the_same_object_twice_is_one_file(link: Link, big: Any, contents: Contents) -> None:
    objects = pushed(link, big, contents)

    for object_id, body in objects.items():
        link.state.object_store.put(object_id, body)

    assert len(files(link)) == 1


def test_a_lost_file_is_an_unknown_object(link: Link, big: Any, contents: Contents) -> None:
    objects = pushed(link, big, contents)
    (file,) = files(link)
    os.truncate(file, 10)
    (object_id,) = (i for i, body in objects.items() if len(body) > large.LARGE_BYTES)

    assert link.state.get_object(link.run_id, object_id) is None
    file.unlink()
    assert link.state.get_object(link.run_id, object_id) is None


def test_what_is_not_registered_or_not_as_named_leaves_no_file(
    link: Link, big: Any, contents: Contents
) -> None:
    objects = contents(big)
    object_id, body = max(objects.items(), key=lambda item: len(item[1]))
    with pytest.raises(NoObjectInStoreError):
        link.state.object_store.put(object_id, body)
    link.announced(big)

    with pytest.raises(ValueError, match="does not match"):
        link.state.object_store.put(object_id, body[:-1] + b"!")
    with pytest.raises(ValueError, match="not an object"):
        link.state.object_store.put(object_id, large.MARK + b"1:../../etc/passwd")

    assert files(link) == []
