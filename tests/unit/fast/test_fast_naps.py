from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from umbel.flower.fast import guard, naps
from umbel.flower.fast.guard import Way
from umbel.flower.fast.naps import Naps

LONG_S = 60.0  # a test that takes its naps in full would not end in time


def test_a_change_before_the_nap_ends_it_at_once() -> None:
    change = threading.Event()
    change.set()
    napping = Naps(change, 2 * LONG_S, Way.NAPS_NODE)
    began = time.monotonic()
    napping.sleep(LONG_S)
    assert time.monotonic() - began < LONG_S / 2
    assert not change.is_set()


def test_a_change_from_another_thread_ends_the_nap() -> None:
    change = threading.Event()
    napping = Naps(change, 2 * LONG_S, Way.NAPS_NODE)
    thread = threading.Thread(target=change.set)
    thread.start()
    began = time.monotonic()
    napping.sleep(LONG_S)
    thread.join()
    assert time.monotonic() - began < LONG_S / 2


def test_a_nap_without_a_change_ends_with_the_clock() -> None:
    napping = Naps(threading.Event(), LONG_S, Way.NAPS_NODE)
    began = time.monotonic()
    napping.sleep(0.002)
    assert time.monotonic() - began >= 0.002


def test_after_a_held_answer_there_is_no_nap() -> None:
    napping = Naps(threading.Event(), LONG_S, Way.NAPS_NODE)
    napping._last_s -= naps.HELD_S
    began = time.monotonic()
    napping.sleep(LONG_S)
    assert time.monotonic() - began < LONG_S / 2


def test_against_a_server_that_does_not_hold_there_is_a_nap_each_time() -> None:
    napping = Naps(threading.Event(), 0.002, Way.NAPS_NODE)
    napping._last_s -= naps.HELD_S
    napping.sleep(0.002)  # held: none
    began = time.monotonic()
    napping.sleep(0.002)
    napping.sleep(0.002)
    assert time.monotonic() - began >= 0.004


def test_the_first_nap_leaves_its_mark_and_the_rest_is_the_time_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(guard.CANARY, str(tmp_path))
    monkeypatch.setattr(guard, "_taken", set())
    change = threading.Event()
    change.set()
    napping = Naps(change, LONG_S, Way.NAPS_NODE)
    napping.sleep(0.001)
    assert [file.name for file in tmp_path.iterdir()] == ["NAPS_NODE"]
    assert napping.monotonic is time.monotonic
