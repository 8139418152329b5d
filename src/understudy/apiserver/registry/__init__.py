"""The generic registry: how objects of any kind are created, read, listed, updated (upstream: `registry/generic`)."""
