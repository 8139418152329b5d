"""Command line, offline validator, pytest plugin."""
