"""Who asks: bearer tokens, service account tokens, impersonation."""
