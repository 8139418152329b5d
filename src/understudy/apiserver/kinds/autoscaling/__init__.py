"""Horizontal pod autoscalers; the form of autoscaling/v2 is the internal one."""
