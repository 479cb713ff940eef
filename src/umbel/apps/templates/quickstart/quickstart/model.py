"""The model: softmax regression in plain NumPy. Put your own model here."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Model = list[Floats]  # weights (64 x 10) and bias (10)

BATCH_SIZE = 32


def new_model() -> Model:
    """Give the model that knows nothing yet."""
    return [np.zeros((64, 10), np.float32), np.zeros(10, np.float32)]


def predict(model: Model, images: Floats) -> Floats:
    """Give the probability of each of the ten digits for each image."""
    weights, bias = model
    scores = images @ weights + bias
    scores -= scores.max(axis=1, keepdims=True)  # so that exp() cannot overflow
    powers: Floats = np.exp(scores)
    total: Floats = powers.sum(axis=1, keepdims=True)
    return powers / total


def train(
    model: Model, images: Floats, labels: Labels, *, epochs: int, learning_rate: float, seed: int
) -> tuple[Model, float]:
    """Give a better model and its loss. The same seed gives the same model."""
    weights, bias = (layer.copy() for layer in model)
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        order = rng.permutation(len(labels))
        for start in range(0, len(order), BATCH_SIZE):
            batch = order[start : start + BATCH_SIZE]
            error = predict([weights, bias], images[batch])
            error[np.arange(len(batch)), labels[batch]] -= 1
            step = np.float32(learning_rate / len(batch))
            weights -= step * (images[batch].T @ error)
            bias -= step * error.sum(axis=0)
    better = [weights, bias]
    return better, evaluate(better, images, labels)[0]


def evaluate(model: Model, images: Floats, labels: Labels) -> tuple[float, float]:
    """Give the loss (cross entropy) and the accuracy."""
    probabilities = predict(model, images)
    of_the_truth = probabilities[np.arange(len(labels)), labels]
    loss = -np.log(np.maximum(of_the_truth, 1e-9)).mean()
    accuracy = (probabilities.argmax(axis=1) == labels).mean()
    return float(loss), float(accuracy)
