"""Requests by what they ask for, and the times of filters, as /metrics has them."""
