"""Validation of the containers of a pod."""
