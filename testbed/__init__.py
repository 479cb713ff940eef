"""Real Kubernetes and real Open Cluster Management on this machine, for tests."""
