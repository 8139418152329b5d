"""Requests to pods, services and nodes are proxied as recorded beside a real kube-apiserver.

`python -m scripts.compare proxies … --save FILE` records recorded/RELEASE.jsonl, beside this file.
"""

from __future__ import annotations

import json
import socket
from ipaddress import ip_address
from pathlib import Path

import pytest

from scripts.common.comparing import Server as Asked
from scripts.compare.proxies import backends, exchanges
from understudy import Server

RECORDED = Path(__file__).with_name("recorded")


def address_of_this_machine() -> str:
    """Return an address of this machine in a network. Skips a test where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
        try:
            route.connect(("192.0.2.1", 9))  # chooses the address, and sends nothing
            address = str(route.getsockname()[0])
        except OSError:
            address = "127.0.0.1"
    if ip_address(address).is_loopback:
        pytest.skip("this machine has no address but those of the loopback, which nothing is proxied to")
    return address


@pytest.mark.parametrize("release", ["1.32", "1.36", "1.37"])
def test_exchanges_are_as_recorded(release: str, tmp_path: Path) -> None:
    """Places, headers in both directions, bodies, links, upgrades and errors are those of the real server."""
    host, tokens = address_of_this_machine(), tmp_path / "tokens.csv"
    tokens.write_text("admin-token,admin,admin,system:masters\n")
    with (
        Server(emulated_version=release, token_auth_file=tokens) as server,
        Asked(server.url, "admin-token") as asked,
        backends(host) as (plain, kubelet),
    ):
        actual = list(exchanges(asked, host, plain, kubelet))
    assert actual == [json.loads(line) for line in (RECORDED / f"{release}.jsonl").read_text().splitlines()]
