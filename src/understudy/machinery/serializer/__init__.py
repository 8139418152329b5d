"""Bytes to objects and back: JSON (a fast and an exact decoder), Kubernetes protobuf, and the order of fields."""
