"""Authentication: finds out who sends a request."""
