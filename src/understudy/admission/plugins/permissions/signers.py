"""Rights about signers: CertificateApproval, CertificateSigning and ClusterTrustBundleAttest.

They are verbs of the resource `signers`, which does not exist otherwise: `approve`, `sign` and `attest`, for the
signer by name or for DOMAIN/*.

Source: k8s.io/kubernetes/plugin/pkg/admission/certificates, k8s.io/kubernetes/pkg/certauthorization.
"""

from __future__ import annotations

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.common.garbage_collection import changes_only_gc_fields
from understudy.kinds.context import Context
from understudy.kinds.core.pods.validation.updates import equal_ignoring_empty
from understudy.machinery.auth import authorization
from understudy.machinery.auth.users import User
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases import features
from understudy.machinery.types import nested_field

_GROUP = "certificates.k8s.io"


def _check(verb: str, signer: str, what: str, attributes: Attributes, ctx: Context) -> None:
    """Raise 403 unless the user has a verb for a signer, or for all of its domain (`IsAuthorizedForSignerName`)."""
    user = User.of_info(attributes.user)
    for name in (signer, f"{signer.partition('/')[0]}/*"):
        question = authorization.Attributes(
            "", verb, is_resource=True, group=_GROUP, version="*", resource="signers", name=name
        )
        if ctx.authorizer.authorize(user, question).allowed:
            return
    raise attributes.forbidden(f"user not permitted to {verb} {what} signerName {go_quote(signer)}")


class CertificateApproval:
    """Refuses approvals and denials of certificates of signers that the user may not approve."""

    name = "CertificateApproval"

    def handles(self, point: Point) -> bool:
        return point[:4] == (Operation.UPDATE, _GROUP, "certificatesigningrequests", "approval")

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 for a signer that the user may not approve."""
        signer = attributes.old["spec"].get("signerName", "")
        _check("approve", signer, "requests with", attributes, ctx)


class CertificateSigning:
    """Refuses certificates and conditions by users who may not sign for the signer."""

    name = "CertificateSigning"

    def handles(self, point: Point) -> bool:
        return point[:4] == (Operation.UPDATE, _GROUP, "certificatesigningrequests", "status")

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 for a change by a user who may not sign. Other fields of the status may change."""
        new, old = ((each.get("status") or {}) for each in (attributes.new, attributes.old))
        fields = ("certificate", "conditions")
        if not all(equal_ignoring_empty(new.get(field), old.get(field)) for field in fields):
            signer = attributes.old["spec"].get("signerName", "")
            _check("sign", signer, "requests with", attributes, ctx)


class ClusterTrustBundleAttest:
    """Refuses trust bundles by users who may not attest for their signer."""

    name = "ClusterTrustBundleAttest"

    def handles(self, point: Point) -> bool:
        return point[1:4] == (_GROUP, "clustertrustbundles", "") and point.operation in _WRITES

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 for a signer that the user may not attest for. Bundles without a signer need nothing."""
        signer = nested_field(attributes.new, "spec", "signerName", default="")
        if not signer or not ctx.gates[features.CLUSTER_TRUST_BUNDLE]:
            return
        if not changes_only_gc_fields(attributes.new, attributes.old_object):
            _check("attest", signer, "for", attributes, ctx)


_WRITES = (Operation.CREATE, Operation.UPDATE)
