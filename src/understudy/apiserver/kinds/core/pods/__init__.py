"""Pods and pod templates: defaults, fields behind feature gates, strategies, table cells."""
