"""Admission plugins for nodes: the taint of new ones, and what kubelets may write."""
