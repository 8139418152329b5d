"""Persistent volumes and claims: defaults, strategies, table cells, warnings. `pods/volumes` validates them."""
