"""The command line of everything: the API server's commands, and those of the programs around it."""
