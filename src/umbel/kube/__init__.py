"""Kubernetes' API as plain JSON: get, list, apply, delete, watch."""
