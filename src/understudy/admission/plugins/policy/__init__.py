"""Admission policies: which of them are in force, their parameters, and the plugins that ask them."""
