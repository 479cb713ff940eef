"""What runs in the containers of a federation on Kubernetes."""
