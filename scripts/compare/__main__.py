"""The command `python -m scripts.compare`."""

import sys

from scripts.common.commands import main

COMMANDS = (
    "requests",
    "access",
    "aggregation",
    "apply",
    "audit",
    "authorization",
    "cbor",
    "custom",
    "interchange",
    "limits",
    "kinds",
    "kubelets",
    "proxies",
    "recordings",
    "metadata",
    "policies",
    "rules",
    "webhooks",
    "allocator",
    "controllers",
    "schedulers",
    "envtest",
    "integration",
    "e2e",
)

if __name__ == "__main__":
    sys.exit(main("scripts.compare", COMMANDS))
