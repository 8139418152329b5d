"""Admission: whether an object may be stored, and in which form: admission plugins, policies, webhooks."""
