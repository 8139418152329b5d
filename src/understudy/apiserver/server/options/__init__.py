"""The options of a server, and how their values are read."""
