"""Kubernetes' own programs, built from its published Go modules and run."""
