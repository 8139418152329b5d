"""Admission plugins for scheduling: priorities, and groups of pods."""
