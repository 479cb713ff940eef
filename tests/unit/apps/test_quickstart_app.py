from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from umbel.apps import quickstart

Import = Callable[[Path, str], ModuleType]
Play = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    quickstart.write(tmp_path / "quickstart")
    return tmp_path / "quickstart"


@pytest.fixture
def data(folder: Path, imported: Import) -> Any:
    return imported(folder, "quickstart.data")


@pytest.fixture
def model(folder: Path, imported: Import) -> Any:
    return imported(folder, "quickstart.model")


DATASETS = pytest.mark.parametrize("dataset", ["digits", "made"])


@DATASETS
def test_data_are_images_of_ten_digits(data: Any, dataset: str) -> None:
    images, labels = data.load(dataset)
    assert images.shape == (1797, 64)
    assert images.dtype == np.float32
    assert images.min() >= 0
    assert images.max() <= 1
    assert set(labels) == set(range(10))


def test_the_digits_are_those_that_everybody_knows(data: Any) -> None:
    images, labels = data.load("digits")
    assert (images * 16).sum(dtype=np.float64) == 561718
    assert list(np.bincount(labels)) == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_without_scikit_learn_the_images_are_made(
    data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert data.available_dataset("auto") == "digits"
    monkeypatch.setitem(sys.modules, "sklearn", None)  # Python's own way to say: not installed
    assert data.available_dataset("auto") == "made"
    with pytest.raises(FileNotFoundError, match="install scikit-learn"):
        data.load("digits")


def test_an_unknown_data_set_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match='not "letters"'):
        data.load("letters")


@pytest.mark.parametrize("sites", [1, 2, 3, 10, 100, 700])
def test_every_example_has_exactly_one_owner_and_every_site_some(data: Any, sites: int) -> None:
    labels = data.load("digits")[1][:1438]
    counts = np.bincount(data.owners(labels, sites), minlength=sites)
    assert counts.sum() == 1438
    assert len(counts) == sites
    assert counts.min() >= 2


@DATASETS
def test_parts_are_disjoint_and_cover_everything(data: Any, dataset: str) -> None:
    parts = [
        *(part for site in range(5) for part in data.load_site(dataset, site, 5)),
        data.load_central_test(dataset),
    ]
    together = np.concatenate([np.column_stack(part) for part in parts])
    whole = np.column_stack(data.load(dataset))
    assert np.array_equal(np.unique(together, axis=0), np.unique(whole, axis=0))
    assert len(together) == len(whole)


def test_parts_are_the_same_for_everybody_who_asks(data: Any) -> None:
    labels = data.load("digits")[1]
    assert np.array_equal(data.owners(labels, 7), data.owners(labels, 7))


@DATASETS
@pytest.mark.parametrize("sites", [3, 10])
def test_sites_differ_in_what_they_have_seen(data: Any, dataset: str, sites: int) -> None:
    labels = data.load(dataset)[1]
    owners = data.owners(labels, sites)
    shares = np.array([np.bincount(labels[owners == s], minlength=10) for s in range(sites)])
    shares = shares / shares.sum(axis=1, keepdims=True)
    overall = np.bincount(labels) / len(labels)
    # Total variation distance: 0 would be a fair split; chance alone gives less than 0.1.
    assert (np.abs(shares - overall).sum(axis=1) / 2).min() > 0.2


@pytest.mark.parametrize(("partition", "sites"), [(3, 3), (-1, 3)])
def test_a_partition_that_does_not_exist_is_refused(data: Any, partition: int, sites: int) -> None:
    with pytest.raises(ValueError, match=f"no partition {partition} of {sites}"):
        data.load_site("digits", partition, sites)


def test_more_sites_than_examples_are_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="too few for 1000 sites"):
        data.load_site("digits", 0, 1000)


def test_a_new_model_guesses(model: Any, data: Any) -> None:
    loss, accuracy = model.evaluate(model.new_model(), *data.load("digits"))
    assert loss == pytest.approx(np.log(10), abs=1e-4)
    assert accuracy == pytest.approx(0.1, abs=0.02)


def test_probabilities_add_up_also_for_enormous_scores(model: Any) -> None:
    wild = [np.full((64, 10), 1e4, np.float32) * np.arange(10, dtype=np.float32), np.zeros(10)]
    probabilities = model.predict(wild, np.ones((2, 64), np.float32))
    assert probabilities.sum(axis=1) == pytest.approx([1, 1])


def test_training_learns_repeats_and_leaves_the_old_model_alone(model: Any, data: Any) -> None:
    train, test = data.load_site("digits", 0, 1)
    old = model.new_model()
    settings = {"epochs": 3, "learning_rate": 0.5, "seed": 1}
    new, loss = model.train(old, *train, **settings)
    again, _ = model.train(old, *train, **settings)
    assert all(np.array_equal(a, b) for a, b in zip(new, again, strict=True))
    assert loss < 0.5
    assert model.evaluate(new, *test)[1] > 0.9
    assert not any(layer.any() for layer in old)


@DATASETS
@pytest.mark.parametrize("nodes", [1, 3])
def test_the_app_learns_round_by_round(
    folder: Path, play: Play, imported: Import, dataset: str, nodes: int
) -> None:
    grid = play(folder, nodes, dataset=dataset)
    model, data = (imported(folder, f"quickstart.{name}") for name in ("model", "data"))
    test = data.load_central_test(dataset)
    assert len(grid.sent) == 3 * 2 * nodes
    evaluated = grid.sent[nodes :: 2 * nodes]  # the first that is sent after each aggregation
    after = [
        model.evaluate(each.content["arrays"].to_numpy_ndarrays(), *test) for each in evaluated
    ]
    losses = [loss for loss, _ in after]
    assert losses == sorted(losses, reverse=True)
    assert after[-1][1] > 0.9


def test_a_fraction_of_the_sites_can_train(folder: Path, play: Play) -> None:
    grid = play(folder, 4, fraction_train=0.5, num_server_rounds=1)
    assert len(grid.metrics("train")) == 2
    assert len(grid.metrics("evaluate")) == 4


def test_the_hub_names_the_data_set_for_all(folder: Path, play: Play) -> None:
    grid = play(folder, 2, num_server_rounds=1)
    assert {each.content["config"]["dataset"] for each in grid.sent} == {"digits"}
