"""Bytes to objects and back: JSON (a fast and an exact decoder), Kubernetes protobuf, the order of fields."""
