"""The audit log: who asked for what, and what became of it, as a policy says."""
