"""Selectors of objects by labels and fields, and of nodes: parsing, with the texts of errors, and matching."""
