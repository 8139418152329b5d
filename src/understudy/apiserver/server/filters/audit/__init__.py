"""Logs requests as the audit policy says: the filter, and what writes, sends and keeps events."""
