"""Engines: each keeps the bytes of a store in another place."""
