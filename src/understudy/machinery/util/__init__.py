"""Helpers that know nothing of Kubernetes: the clock, deep recursion, spelling."""
