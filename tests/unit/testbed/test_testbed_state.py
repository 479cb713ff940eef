"""The state folder: what is written is read back, and what is not ours is not touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from testbed.bed import Bed, NotOurs, clear, is_up
from testbed.errors import NotUp
from testbed.kubelet import add_order, read_orders
from testbed.layout import load
from testbed.pod_life import Behaviour, Order
from testbed.processes import Processes
from testbed.relay import Link, Rules, read_rules, write_rules


def test_a_folder_with_something_else_is_not_cleared(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(NotOurs):
        clear(tmp_path)
    assert (tmp_path / "thesis.tex").exists()


def test_clearing_nothing_is_fine(tmp_path: Path) -> None:
    clear(tmp_path)
    clear(tmp_path / "missing")


def test_a_test_bed_that_is_not_there_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(NotUp, match="no test bed"):
        Bed.at(tmp_path)
    with pytest.raises(NotUp, match="etcd"):
        Processes(tmp_path).record("etcd")
    assert not is_up(tmp_path)


def test_a_plan_is_found_again(tmp_path: Path) -> None:
    (tmp_path / "layout.json").write_text(
        '{"shared": {"etcd": 1}, "clusters": {"hub": {"api": 2, "controllers": 3},'
        ' "berlin": {"api": 4, "controllers": 5, "agent": 6, "relay": 7}}, "nodes": {"hub": 1}}'
    )
    layout = load(tmp_path)
    assert layout.spokes == ["berlin"]
    assert layout.url("berlin") == "https://127.0.0.1:4"
    with pytest.raises(NotUp, match="paris"):
        layout.kubeconfig("paris")


def test_rules_of_the_relay_change_one_link(tmp_path: Path) -> None:
    rules = Rules(1, {"berlin": Link(2), "paris": Link(3)})
    path = tmp_path / "relay.json"
    write_rules(path, rules.changed("berlin", cut=True).changed("berlin", delay_ms=40))
    again = read_rules(path)
    assert again.links == {"berlin": Link(2, cut=True, delay_ms=40), "paris": Link(3)}
    assert again.generation == 2


def test_the_newest_order_for_a_pattern_stands(tmp_path: Path) -> None:
    path = tmp_path / "orders.json"
    assert read_orders(path) == []
    add_order(path, "a/*", "fail")
    add_order(path, "b/*", "never")
    add_order(path, "a/*", "well")
    assert read_orders(path) == [Order("b/*", Behaviour("never")), Order("a/*", Behaviour())]
