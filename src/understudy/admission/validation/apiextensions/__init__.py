"""Validation of apiextensions.k8s.io: custom resource definitions and their schemas."""
