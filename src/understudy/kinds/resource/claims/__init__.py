"""ResourceClaim and ResourceClaimTemplate."""
