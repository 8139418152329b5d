"""What a new server holds before its first request."""
