"""Validation of admissionregistration.k8s.io: webhook configurations, admission policies and their bindings."""
