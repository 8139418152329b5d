"""Limit ranges and resource quotas."""
