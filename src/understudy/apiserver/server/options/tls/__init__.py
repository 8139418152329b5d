"""The TLS side of a server: its own certificate, and those that clients show."""
