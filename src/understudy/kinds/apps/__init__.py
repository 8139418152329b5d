"""The kinds of apps: deployments, replica sets, daemon sets, stateful sets, controller revisions."""
