"""Horizontal pod autoscalers, whose internal form is that of autoscaling/v2, and their conversion to autoscaling/v1."""
