"""Releases of Kubernetes and their feature gates."""
