"""Kinds about the cluster itself: access, storage, networking, extensions."""
