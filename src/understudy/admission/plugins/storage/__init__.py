"""Admission plugins for volumes and their claims."""
