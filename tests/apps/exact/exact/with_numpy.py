"""A regression by steepest descent."""

import numpy as np


def initial() -> list[np.ndarray]:
    return [np.zeros((5, 3)), np.full(3, 0.1)]


def trained(arrays: list[np.ndarray], shard: int) -> list[np.ndarray]:
    random = np.random.default_rng(shard)
    x, y = random.normal(size=(200, 5)), random.normal(size=(200, 3))
    weights, bias = arrays
    for _ in range(20):
        error = x @ weights + bias - y
        weights = weights - 0.05 * x.T @ error / len(x)
        bias = bias - 0.05 * error.mean(axis=0)
    return [weights, bias]
