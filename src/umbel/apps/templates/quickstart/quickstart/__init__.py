"""A Flower app: federated softmax regression on handwritten digits."""
