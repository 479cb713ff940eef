"""What every store promises, whatever it keeps its state in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from umbel.ports import Allotment, Kept, Store
from umbel.store.memory import MemoryStore
from umbel.store.sqlite import SqliteStore
from umbel.testing import federation, unit

GIVEN = Allotment({"fleet": 9092, "site/a": 9094}, {"a": 0, "b": 1})
GATE = Kept(unit("hub/gate", ports={"fleet": 1}, names=["x"], warm=True, at=0.5), 10, 20)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    made = SqliteStore(tmp_path / "home")
    yield made
    made.close()


def test_a_new_store_knows_nothing(store: Store) -> None:
    assert store.federations() == {}
    assert store.allotment("lab") == Allotment()
    assert store.units("lab") == {}


def test_documents_come_back_as_they_were_sorted_by_name(store: Store) -> None:
    users = [{"name": "ada", "role": "operator"}]
    full = federation("b", superlink={"endpoint": "fl.example.org"}, security={"users": users})
    store.save_federation(full)
    store.save_federation(federation("a"))
    assert list(store.federations()) == ["a", "b"]
    assert store.federations() == {"a": federation("a"), "b": full}


def test_saving_a_document_again_replaces_it(store: Store) -> None:
    store.save_federation(federation(sites=1))
    store.save_federation(federation(sites=2))
    assert store.federations() == {"lab": federation(sites=2)}


def test_an_allotment_replaces_the_former_one(store: Store) -> None:
    store.save_allotment("lab", GIVEN)
    assert store.allotment("lab") == GIVEN
    fewer = Allotment({"fleet": 1}, {"b": 1, "a": 2})
    store.save_allotment("lab", fewer)
    assert store.allotment("lab") == fewer


def test_partition_ids_may_change_hands(store: Store) -> None:
    store.save_allotment("lab", Allotment({}, {"a": 0, "b": 1}))
    store.save_allotment("lab", Allotment({}, {"a": 1, "b": 0}))
    assert store.allotment("lab").partitions == {"a": 1, "b": 0}


def test_an_allotment_may_come_before_its_document(store: Store) -> None:
    store.save_allotment("lab", GIVEN)
    assert store.federations() == {}
    assert store.allotment("lab") == GIVEN


def test_a_unit_comes_back_with_its_process(store: Store) -> None:
    store.save_unit(GATE)
    assert store.units("lab") == {"hub/gate": GATE}
    assert store.units("lab")["hub/gate"].unit.fingerprint == GATE.unit.fingerprint


def test_a_unit_that_was_started_again_is_there_once(store: Store) -> None:
    store.save_unit(GATE)
    later = Kept(unit("hub/gate", ports={}), 11, 21)
    store.save_unit(later)
    assert store.units("lab") == {"hub/gate": later}


def test_a_forgotten_unit_is_gone_and_may_be_forgotten_again(store: Store) -> None:
    store.save_unit(GATE)
    store.forget_unit("lab", "hub/gate")
    store.forget_unit("lab", "hub/gate")
    assert store.units("lab") == {}


@pytest.mark.parametrize("keep", [True, False])
def test_a_forgotten_federation_leaves_its_allotment_only_when_told(
    store: Store, keep: bool
) -> None:
    store.save_federation(federation())
    store.save_allotment("lab", GIVEN)
    store.save_unit(GATE)
    store.forget_federation("lab", keep_allotment=keep)
    store.forget_federation("lab", keep_allotment=keep)
    assert store.federations() == {}
    assert store.units("lab") == {}
    assert store.allotment("lab") == (GIVEN if keep else Allotment())


def test_federations_do_not_touch_each_other(store: Store) -> None:
    for name in ("one", "two"):
        store.save_federation(federation(name))
        store.save_allotment(name, GIVEN)
        store.save_unit(Kept(unit("hub/gate", name), 1, 1))
    store.forget_unit("one", "hub/gate")
    store.forget_federation("one", keep_allotment=False)
    assert list(store.federations()) == ["two"]
    assert store.allotment("two") == GIVEN
    assert list(store.units("two")) == ["hub/gate"]


def test_what_was_handed_out_does_not_change_the_store(store: Store) -> None:
    store.save_federation(federation())
    store.save_unit(GATE)
    dict(store.federations()).clear()
    handed = store.units("lab")
    store.forget_unit("lab", "hub/gate")
    assert list(handed) == ["hub/gate"]
    assert list(store.federations()) == ["lab"]
