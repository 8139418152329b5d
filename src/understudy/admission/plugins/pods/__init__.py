"""Admission plugins for pods: what runtime classes and nodes add to them, and resizes that nodes cannot do."""
