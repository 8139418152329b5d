"""Tells users why what they ask for does not happen."""
