"""Validation of cluster trust bundles: certificates of authorities, as PEM blocks."""

from __future__ import annotations

from understudy.kinds.common.objectmeta import CORE, IMMUTABLE, Metadata
from understudy.kinds.common.signer_names import signer_name
from understudy.kinds.context import Context
from understudy.machinery.golang.x509 import pem
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, FieldError, Path, invalid, too_long
from understudy.machinery.validation.names import size, subdomain_name

LARGEST = 1024 * 1024  # bytes of a bundle

_SIGNER, _BUNDLE = Path("spec", "signerName"), Path("spec", "trustBundle")


def metadata(obj: Obj, ctx: Context) -> Errors:
    """Check the metadata of a bundle: its name begins with its signer (upstream: `ValidateClusterTrustBundleName`)."""
    signer = obj["spec"].get("signerName", "")
    start = signer.replace("/", ":") + ":"

    def rule(name: str, prefix: bool) -> list[str]:
        if not signer:
            text = 'ClusterTrustBundle without signer name must not have ":" in its name'
            return [text] if ":" in name else subdomain_name(name, prefix)
        if not name.startswith(start):
            return [f"ClusterTrustBundle for signerName {signer} must be named with prefix {start}"]
        return subdomain_name(name.removeprefix(start), prefix)

    return Metadata(name=rule).created(obj, ctx)


def create(obj: Obj, ctx: Context) -> Errors:
    """Check a new bundle (upstream: `ValidateClusterTrustBundle`)."""
    return _signer(obj) + _anchors(obj["spec"].get("trustBundle", ""))


def update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a changed bundle, whose certificates are read only if they change."""
    spec, before = obj["spec"], old["spec"]
    bundle, signer = spec.get("trustBundle", ""), spec.get("signerName", "")
    errors = metadata(obj, ctx) + _signer(obj)
    errors += _anchors(bundle) if bundle != before.get("trustBundle", "") else []
    errors += CORE.updated(obj, old, ctx)
    return errors + ([] if signer == before.get("signerName", "") else [invalid(_SIGNER, signer, IMMUTABLE)])


def _signer(obj: Obj) -> Errors:
    signer = obj["spec"].get("signerName", "")
    return signer_name(signer, _SIGNER) if signer else []


def _anchors(bundle: str) -> Errors:
    if size(bundle) > LARGEST:
        return [too_long(_BUNDLE, LARGEST, in_bytes=True)]
    errors: Errors = []
    places: dict[bytes, list[str]] = {}
    for i, block in enumerate(pem.blocks(bundle.encode())):
        if wrong := _wrong(block):
            errors.append(_unfit(f"entry {i} {wrong}"))
        else:
            places.setdefault(block.data, []).append(str(i))
    if errors:
        return errors
    if not places:
        return [_unfit("at least one trust anchor must be provided")]
    return [
        _unfit(f"duplicate trust anchor (indices [{' '.join(indices)}])")
        for indices in places.values()
        if len(indices) > 1
    ]


def _wrong(block: pem.Block) -> str:
    if block.type != "CERTIFICATE":
        return f"has bad block type: {block.type}"
    if block.headers:
        return "has PEM block headers"
    from cryptography import x509

    try:
        certificate = x509.load_der_x509_certificate(block.data)
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        return "does not have the CA bit set"
    except ValueError:
        return "does not parse as X.509"
    return "" if constraints.ca else "does not have the CA bit set"


def _unfit(text: str) -> FieldError:
    return invalid(_BUNDLE, "<value omitted>", text)
