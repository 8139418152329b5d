"""The kind of node.k8s.io: runtime classes."""
