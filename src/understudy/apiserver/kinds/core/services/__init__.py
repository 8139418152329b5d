"""Services and endpoints: defaults, allocation of addresses and ports, strategies, table cells."""
