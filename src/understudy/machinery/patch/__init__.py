"""Patches of an object: JSON, merge and strategic merge patches; server-side apply is in `apply`."""
