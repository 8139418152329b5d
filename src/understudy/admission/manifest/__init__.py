"""Webhooks and policies that stand in files instead of the API: which folders, what is in them, when they change."""
