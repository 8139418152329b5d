"""CertificateSubjectRestriction: refuse client certificates that would make their owner an administrator."""

from __future__ import annotations

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.certificates.signing_requests import CLIENT_SIGNER, organizations
from understudy.kinds.context import Context
from understudy.machinery import errors
from understudy.machinery.auth.users import MASTERS

_REQUESTS = ("certificates.k8s.io", "certificatesigningrequests")


class CertificateSubjectRestriction:
    """Refuses requests for client certificates of the group system:masters."""

    name = "CertificateSubjectRestriction"

    def handles(self, point: Point) -> bool:
        return point[:4] == (Operation.CREATE, *_REQUESTS, "")

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 for a certificate that would make its owner an administrator."""
        spec = attributes.new["spec"]
        if spec.get("signerName") == CLIENT_SIGNER and MASTERS in organizations(spec.get("request")):
            why = f"use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"
            raise errors.admission_forbidden(*_REQUESTS, attributes.new["metadata"], why)
