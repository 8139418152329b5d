"""Requests by who has sent them, and their tokens, as /metrics has them."""
