"""Validation of ResourceClaim and ResourceClaimTemplate."""
