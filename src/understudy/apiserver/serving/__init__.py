"""What a server of a release serves."""
