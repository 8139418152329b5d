"""Subresources with their own bodies: binding, eviction, scale, token, and those that connect to a kubelet."""
