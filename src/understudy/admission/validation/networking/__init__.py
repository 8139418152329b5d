"""Validation of networking.k8s.io: ingresses, ingress classes, network policies."""
