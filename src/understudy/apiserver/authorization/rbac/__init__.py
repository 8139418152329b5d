"""Authorization by roles and bindings (`--authorization-mode=RBAC`)."""
