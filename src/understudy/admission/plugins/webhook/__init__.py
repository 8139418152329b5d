"""Admission webhooks: which of them to call about a request, what they are sent, and what their answers mean."""
