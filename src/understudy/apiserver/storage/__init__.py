"""The store behind the registry: its interface, and the one in memory."""
