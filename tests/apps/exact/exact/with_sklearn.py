"""A logistic regression that goes on where the others were."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

CLASSES = np.arange(10)


def initial() -> list[np.ndarray]:
    return [np.zeros((10, 64)), np.zeros(10)]


def trained(arrays: list[np.ndarray], shard: int) -> list[np.ndarray]:
    x, y = load_digits(return_X_y=True)
    x, y = x[shard::3] / 16.0, y[shard::3]
    model = SGDClassifier(loss="log_loss", random_state=shard, average=True)
    model.partial_fit(x, y, classes=CLASSES)
    model.coef_, model.intercept_ = (array.copy() for array in arrays)
    for _ in range(3):
        model.partial_fit(x, y)
    return [model.coef_, model.intercept_]
