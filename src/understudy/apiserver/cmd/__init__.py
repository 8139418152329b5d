"""The command line, the offline validator and the pytest plugin."""
