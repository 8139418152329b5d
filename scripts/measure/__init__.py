"""Measure speed and memory, and what the tests notice."""
