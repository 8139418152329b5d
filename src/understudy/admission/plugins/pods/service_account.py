"""ServiceAccount: give every pod a service account, the account's token and its secrets for pulling images.

Source: k8s.io/kubernetes/plugin/pkg/admission/serviceaccount.
"""

from __future__ import annotations

from collections.abc import Iterator

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.context import Context
from understudy.kinds.core.pods import pod_references
from understudy.machinery import errors
from understudy.machinery.golang.text import parse_bool
from understudy.machinery.types import Obj
from understudy.machinery.validation.generated_names import generate_name

DEFAULT = "default"
ENFORCED = "kubernetes.io/enforce-mountable-secrets"
TOKEN_VOLUME, TOKEN_PATH = "kube-api-access-", "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_SECONDS = (
    3607  # a kubelet that asks for this is given a token that lives for a year, for clients that read it once
)


class ServiceAccount:
    """Sets the service account of new pods and mounts its token, and refuses accounts that do not exist.

    kube-apiserver waits up to two seconds for the account `default` of a new namespace; this one does not.
    """

    name = "ServiceAccount"

    def handles(self, point: Point) -> bool:
        writes = ((Operation.CREATE, ""), (Operation.UPDATE, "ephemeralcontainers"))
        return point[1:3] == ("", "pods") and (point.operation, point.subresource) in writes

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        """Set account, token volume and pull secrets of a new pod. Raises 403 for an account that does not exist."""
        if attributes.point.operation != Operation.CREATE:
            return
        pod = attributes.new
        if not pod_references.is_mirror(pod):
            spec = pod["spec"]
            if not spec.get("serviceAccountName"):
                spec["serviceAccountName"] = spec["serviceAccount"] = DEFAULT
            account = _account(attributes, ctx)
            if _mounts_token(spec, account):
                _mount_token(spec)
            secrets = account.get("imagePullSecrets")
            if secrets and not spec.get("imagePullSecrets"):
                spec["imagePullSecrets"] = [{"name": secret.get("name", "")} for secret in secrets]
        await self.validate(attributes, ctx)

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 for a pod without an account, or with secrets that its account may not mount."""
        pod = attributes.new
        if attributes.point.operation != Operation.CREATE:
            account = _account(attributes, ctx)
            if _is_enforced(account) and (text := _unknown_secret(pod, account, "ephemeralContainers", "ephemeral ")):
                raise errors.unknown_error(text)
            return
        if pod_references.is_mirror(pod):
            if text := _forbidden_in_mirror(pod):
                raise attributes.forbidden(f"a mirror pod may not {text}")
            return
        account = _account(attributes, ctx)
        if _is_enforced(account) and (text := next(_unknown(pod, account), "")):
            raise attributes.forbidden(text)


def _account(attributes: Attributes, ctx: Context) -> Obj:
    """Return the service account of a pod. Raises 403 if the pod has none, or it does not exist."""
    pod, namespace = attributes.new, attributes.namespace
    name = pod["spec"].get("serviceAccountName")
    if not name:
        pod_name = pod["metadata"].get("name", "")
        raise attributes.forbidden(f"no service account specified for pod {namespace}/{pod_name}")
    account = ctx.lookup("", "serviceaccounts", namespace, name)
    if account is None:
        why = errors.not_found("", "serviceaccount", name).message
        raise attributes.forbidden(f"error looking up service account {namespace}/{name}: {why}")
    return account


def _forbidden_in_mirror(pod: Obj) -> str:
    """Return the forbidden thing that a mirror pod does, such as "reference secrets", "" if it does none."""
    if pod["spec"].get("serviceAccountName"):
        return "reference service accounts"
    if any(pod_references.secrets(pod)):
        return "reference secrets"
    if any("serviceAccountToken" in source for source in pod_references.projected_sources(pod)):
        return "use ServiceAccountToken volume projections"
    return ""


def _mounts_token(spec: Obj, account: Obj) -> bool:
    """Report whether a pod gets a token. The pod's own wish goes before that of its account (`shouldAutomount`)."""
    for wish in (spec.get("automountServiceAccountToken"), account.get("automountServiceAccountToken")):
        if wish is not None:
            return bool(wish)
    return True


def _mount_token(spec: Obj) -> None:
    """Mount the token in every container that has nothing at its path, in place (`mountServiceAccountToken`)."""
    volumes = spec.get("volumes") or []
    present = next((volume["name"] for volume in volumes if volume.get("name", "").startswith(TOKEN_VOLUME)), None)
    name = present or generate_name(TOKEN_VOLUME)
    without = [
        container
        for kind in ("initContainers", "containers")
        for container in spec.get(kind) or ()
        if all(mount.get("mountPath") != TOKEN_PATH for mount in container.get("volumeMounts") or ())
    ]
    for container in without:
        mount = {"name": name, "readOnly": True, "mountPath": TOKEN_PATH}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
    if without and present is None:
        spec["volumes"] = [*volumes, {"name": name, "projected": _token_source()}]


def _token_source() -> Obj:
    """Return a volume of a token, the server's root certificates and the namespace (`TokenVolumeSource`)."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"sources": sources, "defaultMode": 0o644}


def _is_enforced(account: Obj) -> bool:
    """Report whether pods of an account may mount only the secrets that it lists (`enforceMountableSecrets`)."""
    return bool(parse_bool((account["metadata"].get("annotations") or {}).get(ENFORCED)))


def _unknown(pod: Obj, account: Obj) -> Iterator[str]:
    """Yield a text for secrets of a pod that its account does not list (`limitSecretReferences`)."""
    listed = _names(account, "secrets")
    of_account = f"is not allowed because service account {account['metadata']['name']} does not reference that"
    for volume in pod["spec"].get("volumes") or ():
        if "secret" in volume and (name := volume["secret"].get("secretName", "")) not in listed:
            yield f'volume with secret.secretName="{name}" {of_account} secret'
    for kind, which in (("initContainers", "init "), ("containers", "")):
        if text := _unknown_secret(pod, account, kind, which):
            yield text
    listed = _names(account, "imagePullSecrets")
    for i, secret in enumerate(pod["spec"].get("imagePullSecrets") or ()):
        if (name := secret.get("name", "")) not in listed:
            yield f'imagePullSecrets[{i}].name="{name}" {of_account} imagePullSecret'


def _unknown_secret(pod: Obj, account: Obj, kind: str, which: str) -> str:
    """Return a text for the first variable of containers of a kind whose secret the account does not list, or ""."""
    listed = _names(account, "secrets")
    for container in pod["spec"].get(kind) or ():
        variables = (
            (f"envVar {variable['name']}", (variable.get("valueFrom") or {}).get("secretKeyRef"))
            for variable in container.get("env") or ()
        )
        sources = (("envFrom", source.get("secretRef")) for source in container.get("envFrom") or ())
        for what, secret in (*variables, *sources):
            if secret is not None and secret.get("name", "") not in listed:
                return (
                    f"{which}container {container['name']} with {what} referencing secret.secretName="
                    f'"{secret.get("name", "")}" is not allowed because service account '
                    f"{account['metadata']['name']} does not reference that secret"
                )
    return ""


def _names(account: Obj, field: str) -> set[str]:
    return {each.get("name", "") for each in account.get(field) or ()}
