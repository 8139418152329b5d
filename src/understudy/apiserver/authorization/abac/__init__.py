"""Decisions by the lines of a policy file (`--authorization-mode=ABAC`)."""
