"""AuthorizationConfigurations: the file of `--authorization-config`."""
