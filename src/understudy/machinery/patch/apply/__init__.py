"""Server-side apply and `metadata.managedFields`: who owns which field (upstream: `structured-merge-diff`)."""
