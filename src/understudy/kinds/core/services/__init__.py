"""Services: validation, defaults, allocation of addresses and ports, strategies, table cells."""
