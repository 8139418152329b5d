"""Pods and pod templates: validation, defaults, fields behind feature gates, strategies, table cells."""
