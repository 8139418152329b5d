"""Custom resources: the kinds that definitions add, and what is served at one moment."""
