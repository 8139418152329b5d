"""Subresources with bodies of their own: binding, eviction, scale, token, and those that connect to a kubelet."""
