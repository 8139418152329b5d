"""Admission plugins, one module or folder each, under upstream's names."""
