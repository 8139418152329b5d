"""What makes an API server known to others that share its store."""
