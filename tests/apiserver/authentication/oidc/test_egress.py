"""Issuers of tokens are asked through the proxies of an EgressSelectorConfiguration that their configuration names."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.authentication.oidc.issuer import AUDIENCE, Issuer, serve
from tests.apiserver.server.webhooks.egress_flow import configuration
from tests.connect_proxy import ConnectProxy
from tests.http import send
from understudy import Server
from understudy.machinery.types import Obj

PODS = "/api/v1/namespaces/default/pods"
DIRECT = {"name": "cluster", "connection": {"proxyProtocol": "Direct"}}


def issuers(path: Path, issuer: Issuer, authority: Path, network: str, groups: str = "") -> Path:
    """Write the configuration of an issuer in a network to a file; return it."""
    source = {
        "url": issuer.url,
        "audiences": [AUDIENCE],
        "certificateAuthority": authority.read_text(),
        "egressSelectorType": network,
    }
    mappings = {"username": {"claim": "sub", "prefix": ""}}
    if groups:
        mappings["groups"] = {"claim": groups, "prefix": ""}
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration"}
    path.write_text(json.dumps({**head, "jwt": [{"issuer": source, "claimMappings": mappings}]}))
    return path


def written(path: Path, obj: Obj) -> Path:
    path.write_text(json.dumps(obj))
    return path


def status(server: Server, token: str) -> int:
    """Return the status of the answer to a request with a token."""
    return send(server, "GET", PODS, headers={"Authorization": f"Bearer {token}"}).status


def proxy_to(issuer: Issuer) -> AbstractContextManager[ConnectProxy]:
    """Run a proxy whose connections all lead to an issuer."""
    return ConnectProxy(int(issuer.url.rpartition(":")[2])).running()


def served(folder: Path, issuer: Issuer, authority: Path, proxy: ConnectProxy, groups: str = "") -> Server:
    """Return a server that reaches an issuer through a proxy."""
    egress = configuration({"cluster": {"tcp": {"url": f"http://{proxy.address}"}}})
    return Server(
        authentication_config=issuers(folder / "issuers.json", issuer, authority, "cluster", groups),
        egress_selector_config_file=written(folder / "egress.json", egress),
    )


def test_issuer_is_asked_through_its_proxy(tmp_path: Path) -> None:
    """Discovery and keys come through it, which is asked by the address of the issuer."""
    issuer = Issuer()
    with (
        serve(tmp_path, issuer) as (authority, paths),
        proxy_to(issuer) as proxy,
        served(tmp_path, issuer, authority, proxy) as server,
    ):
        assert status(server, issuer.token()) == 200
    assert paths == ["/.well-known/openid-configuration", "/keys"]
    assert proxy.asked == [issuer.url.removeprefix("https://")] * 2


def test_source_of_claims_is_asked_through_the_proxy(tmp_path: Path) -> None:
    """Claims that a token says are elsewhere are fetched as the keys are, without TLS, too."""
    issuer = Issuer()
    source = {"_claim_names": {"groups": "s"}, "_claim_sources": {"s": {"endpoint": "http://claims.example/"}}}
    with (
        serve(tmp_path, issuer) as (authority, _),
        proxy_to(issuer) as proxy,
        served(tmp_path, issuer, authority, proxy, "groups") as server,
    ):
        assert status(server, issuer.token(groups=None, **source)) == 401
    assert proxy.asked[-1] == "claims.example:80"


@pytest.mark.parametrize(
    ("egress", "error"),
    [
        (None, 'oidc: egress lookup required with egress selector type "controlplane"'),
        (
            {**configuration({}), "egressSelections": [DIRECT]},
            'oidc: egress lookup for "controlplane" is not configured',
        ),
    ],
    ids=["no configuration", "other network"],
)
def test_network_without_a_way(tmp_path: Path, egress: Obj | None, error: str) -> None:
    """A server does not start with an issuer in a network that its egress configuration does not name."""
    issuer, authority = Issuer(), tmp_path / "ca.crt"
    authority.write_text("")
    options: dict[str, Any] = (
        {} if egress is None else {"egress_selector_config_file": written(tmp_path / "egress.json", egress)}
    )
    with pytest.raises(ValueError, match="egress") as refused:
        Server(authentication_config=issuers(tmp_path / "issuers.json", issuer, authority, "controlplane"), **options)
    assert str(refused.value) == error


def test_network_that_is_reached_directly(tmp_path: Path) -> None:
    """An issuer in it is asked without a proxy."""
    issuer = Issuer()
    egress = {**configuration({}), "egressSelections": [DIRECT]}
    with (
        serve(tmp_path, issuer) as (authority, _),
        Server(
            authentication_config=issuers(tmp_path / "issuers.json", issuer, authority, "cluster"),
            egress_selector_config_file=written(tmp_path / "egress.json", egress),
        ) as server,
    ):
        assert status(server, issuer.token()) == 200
