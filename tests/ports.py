"""Ports for servers that are to listen at an address that is known before they start."""

from scripts.common.ports import BELOW_EPHEMERAL as BELOW_EPHEMERAL
from scripts.common.ports import free_port as free_port
