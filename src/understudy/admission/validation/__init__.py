"""Validation of objects: one entry for each API group, and what they share (upstream: `apis/GROUP/validation`)."""
