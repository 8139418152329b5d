"""Limits of the requests that are answered at once, and their classes."""
