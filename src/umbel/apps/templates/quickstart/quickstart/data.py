"""The data: images of 8 x 8 pixels. Put your own data here.

A real site reads its own files. Here all sites know one data set, and each uses only its own part
of it. The parts differ, as they do in real life: one site has seen many sevens, another hardly any.
"""

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from .model import Floats, Labels

Examples = tuple[Floats, Labels]

SEED = 42
ALPHA = 0.5  # the smaller, the more the sites differ


def available_dataset(wanted: str) -> str:
    """Name the data set to use: "auto" is the digits where they are installed."""
    if wanted != "auto":
        return wanted
    return "digits" if _digits_file().is_file() else "made"


def load(dataset: str) -> Examples:
    """Give all images (pixels from 0 to 1) and their labels (0 to 9), always in the same order."""
    if dataset == "made":
        return _make_images()
    if dataset != "digits":
        raise ValueError(f'dataset is "digits", "made" or "auto", not "{dataset}"')
    if not _digits_file().is_file():
        raise FileNotFoundError('no digits here: install scikit-learn, or set dataset="made"')
    with gzip.open(_digits_file(), "rt", encoding="ascii") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    return table[:, :64] / np.float32(16), table[:, 64].astype(np.int64)


def load_central_test(dataset: str) -> Examples:
    """Give the fifth of the images that no site has, to judge the model that all made together."""
    _, test = _set_test_aside(*load(dataset))
    return test


def load_site(dataset: str, partition_id: int, num_partitions: int) -> tuple[Examples, Examples]:
    """Give one site's own images: four fifths to train with, one fifth to test with."""
    (images, labels), _ = _set_test_aside(*load(dataset))
    own = np.flatnonzero(owners(labels, num_partitions) == partition_id)
    if len(own) == 0:
        raise ValueError(f"there is no partition {partition_id} of {num_partitions}")
    test, rest = own[::5], np.delete(own, np.s_[::5])
    return (images[rest], labels[rest]), (images[test], labels[test])


def owners(labels: Labels, num_partitions: int) -> Labels:
    """Say for each example which site has it. Every site computes the same answer."""
    if len(labels) < 2 * num_partitions:
        raise ValueError(f"{len(labels)} examples are too few for {num_partitions} sites")
    rng = np.random.default_rng(SEED)
    owner = np.full(len(labels), -1, np.int64)
    # Two examples for everybody, so that nobody has nothing to train or to test with.
    owner[rng.permutation(len(labels))[: 2 * num_partitions]] = np.arange(2 * num_partitions) // 2
    for label in np.unique(labels):
        free = rng.permutation(np.flatnonzero((labels == label) & (owner < 0)))
        shares = rng.dirichlet(np.full(num_partitions, ALPHA))
        cuts = (np.cumsum(shares)[:-1] * len(free)).astype(np.int64)
        for site, part in enumerate(np.split(free, cuts)):
            owner[part] = site
    return owner


def _set_test_aside(images: Floats, labels: Labels) -> tuple[Examples, Examples]:
    order = np.random.default_rng(SEED).permutation(len(labels))
    test, rest = np.split(order, [len(order) // 5])
    return (images[rest], labels[rest]), (images[test], labels[test])


def _digits_file() -> Path:
    # scikit-learn's file, read without importing scikit-learn: 0.02 s instead of 2 s, each time.
    found = find_spec("sklearn")
    package = Path(found.origin).parent if found and found.origin else Path("no-scikit-learn")
    return package / "datasets" / "data" / "digits.csv.gz"


def _make_images() -> Examples:
    rng = np.random.default_rng(SEED)
    patterns = rng.random((10, 64))
    labels = rng.integers(10, size=1797)
    images = patterns[labels] + rng.normal(0, 0.5, (len(labels), 64))
    return images.clip(0, 1).astype(np.float32), labels
