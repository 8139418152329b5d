"""Validation of volumes: those of pods, persistent volumes and their claims."""
