"""Behaviour of the kinds of the core group."""
