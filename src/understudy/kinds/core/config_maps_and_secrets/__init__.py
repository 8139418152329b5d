"""Config maps and secrets."""
