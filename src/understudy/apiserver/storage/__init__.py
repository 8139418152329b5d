"""The store behind the registry: its interface, the one in memory, and the one above an engine that keeps its bytes."""
