"""Plugins that limit the size of objects, and how often events are written."""
