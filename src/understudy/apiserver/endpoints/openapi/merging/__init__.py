"""Merges the OpenAPI documents of aggregated servers with those of this one."""
