"""Real kubelets on containerd: every node in a network and a mount namespace of its own."""
