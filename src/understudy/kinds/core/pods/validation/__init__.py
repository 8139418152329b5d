"""Validation of pods: the spec as a whole, the status, updates, resizes and warnings."""
