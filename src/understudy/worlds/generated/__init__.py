"""Worlds that are made from parameters: many nodes, and nodes with the devices that public drivers publish."""
