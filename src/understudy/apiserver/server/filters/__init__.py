"""Filters that every request passes before it is answered, one each, and the chain that they form."""
