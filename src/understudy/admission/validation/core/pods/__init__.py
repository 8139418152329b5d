"""Validation of pods: the spec without its containers and volumes, the status, updates and warnings."""
