"""Patches: JSON, merge and strategic merge patches of an object; server-side apply is in `apply`."""
