"""The kind of policy: pod disruption budgets."""
