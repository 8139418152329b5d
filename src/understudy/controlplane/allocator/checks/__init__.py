"""The checks that a device has to pass besides its selectors: constraints, counters, taints and capacity."""
