"""Admission plugins that ask for rights: for signers of certificates, and for owners of objects."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.asking import ALICE, Rights, ask
from tests.releases import NEWEST
from understudy import Server
from understudy.admission.chain import Plugin
from understudy.admission.plugins.permissions.owner_references import OwnerReferencesPermissionEnforcement
from understudy.admission.plugins.permissions.signers import (
    CertificateApproval,
    CertificateSigning,
    ClusterTrustBundleAttest,
)
from understudy.apiserver.endpoints.object_interfaces import RegistryObjects
from understudy.kinds.context import Context
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates
from understudy.machinery.types import Obj

REQUESTS, BUNDLES = (
    ("certificates.k8s.io", "certificatesigningrequests"),
    ("certificates.k8s.io", "clustertrustbundles"),
)
CONFIG_MAPS = ("", "configmaps")


def refusal(
    plugin: Plugin, rights: Rights, resource: tuple[str, str], new: Obj, old: Obj | None = None, part: str = ""
) -> str | None:
    """Return the text after `is forbidden: `, None if a user with some rights may write."""
    ctx = Context(NEWEST, Gates.of(NEWEST, {"ClusterTrustBundle": True}), "v1", authorizer=rights)
    try:
        ask(plugin, resource, new, ctx, old=old, subresource=part, user=ALICE)
    except StatusError as error:
        return error.message.partition(" is forbidden: ")[2]
    return None


def request(certificate: str = "", **status: Any) -> Obj:
    status |= {"certificate": certificate} if certificate else {}
    return {"metadata": {"name": "r"}, "spec": {"signerName": "example.com/s"}, "status": status}


def test_approval_asks_for_signer_and_its_domain() -> None:
    """An approval needs the verb `approve` for the signer by name, or for all signers of its domain."""
    rights = Rights()
    text = refusal(CertificateApproval(), rights, REQUESTS, request(), request(), "approval")
    assert text == 'user not permitted to approve requests with signerName "example.com/s"'
    assert rights.asked == ["approve signers example.com/s", "approve signers example.com/*"]
    for allowed in rights.asked:
        assert refusal(CertificateApproval(), Rights(allowed), REQUESTS, request(), request(), "approval") is None


@pytest.mark.parametrize("new", [request("Yw=="), request(conditions=[{"type": "Failed"}])])
def test_certificate_asks_for_signer(new: Obj) -> None:
    """A certificate or a condition in the status needs the verb `sign` for the signer."""
    text = refusal(CertificateSigning(), Rights(), REQUESTS, new, request(), "status")
    assert text == 'user not permitted to sign requests with signerName "example.com/s"'
    rights = Rights("sign signers example.com/*")
    assert refusal(CertificateSigning(), rights, REQUESTS, new, request(), "status") is None
    assert refusal(CertificateSigning(), Rights(), REQUESTS, new, new, "status") is None


def bundle(signer: str, **metadata: Any) -> Obj:
    return {"metadata": {"name": "b", **metadata}, "spec": {"signerName": signer}}


def test_trust_bundle_asks_for_signer() -> None:
    """A bundle of a signer needs the verb `attest`, unless only its owners and finalizers change."""
    plugin, none = ClusterTrustBundleAttest(), Rights()
    text = 'user not permitted to attest for signerName "example.com/s"'
    assert refusal(plugin, none, BUNDLES, bundle("example.com/s")) == text
    assert refusal(plugin, none, BUNDLES, bundle("")) is None
    old = bundle("example.com/s")
    assert refusal(plugin, none, BUNDLES, bundle("example.com/s", finalizers=["a"]), old) is None
    assert refusal(plugin, none, BUNDLES, bundle("example.com/s", labels={"a": "b"}), old) == text
    assert refusal(plugin, Rights("attest signers example.com/s"), BUNDLES, old) is None


OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1"}
BLOCKING = {**OWNER, "blockOwnerDeletion": True}


def owned(*owners: Obj) -> Obj:
    return {"metadata": {"name": "c", "namespace": "ns", "ownerReferences": list(owners)}}


def enforcement() -> OwnerReferencesPermissionEnforcement:
    """Make the plugin, with the kinds of a server."""
    state = Server().state
    return OwnerReferencesPermissionEnforcement(RegistryObjects(state.registry, state.schemas))


NOT_DELETABLE = "cannot set an ownerRef on a resource you can't delete: no, <nil>"
NOT_FINALIZABLE = (
    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: no, <nil>"
)
DELETE, FINALIZE, ANY = "delete configmaps c", "update replicasets/finalizers web", "update */finalizers *"


@pytest.mark.parametrize(
    ("new", "old", "allowed", "text"),
    [
        (owned(OWNER), None, [], None),
        (owned(BLOCKING), None, [], NOT_FINALIZABLE),
        (owned(BLOCKING), None, [FINALIZE], None),
        (owned(BLOCKING), None, [ANY], None),
        (owned(OWNER), owned(), [], NOT_DELETABLE),
        (owned(OWNER), owned(), [DELETE], None),
        (owned(), owned(OWNER), [], NOT_DELETABLE),
        (owned(OWNER), owned(OWNER), [], None),
        (owned(BLOCKING), owned(OWNER), [DELETE], NOT_FINALIZABLE),
        (owned({**BLOCKING, "controller": True}), owned(BLOCKING), [DELETE], None),
        (
            owned({**BLOCKING, "kind": "Widget"}),
            None,
            [],
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion apps/v1 Kind "
            'Widget: no matches for kind "Widget" in version "apps/v1"',
        ),
    ],
)
def test_owners_ask_for_rights(new: Obj, old: Obj | None, allowed: list[str], text: str | None) -> None:
    """Changed owners need the right to delete the object, blocking ones that to set the owner's finalizers."""
    assert refusal(enforcement(), Rights(*allowed), CONFIG_MAPS, new, old) == text


@pytest.mark.parametrize("name", ["NodeRestriction", "OwnerReferencesPermissionEnforcement", "ServiceAccount"])
def test_plugin_is_off_by_default(name: str) -> None:
    """A server asks for more rights only if the plugin is enabled."""
    assert name not in [plugin.name for plugin in Server().state.chain.plugins]
    assert name in [plugin.name for plugin in Server(enable_admission_plugins=[name]).state.chain.plugins]
