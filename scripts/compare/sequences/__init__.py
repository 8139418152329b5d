"""Sequences of requests: random ones, what a server answers to them, and shorter ones that differ as well."""
