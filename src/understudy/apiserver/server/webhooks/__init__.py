"""Calling webhooks over HTTPS: the client, the addresses of Services, the verification of certificates."""
