"""Users of kubeconfigs: their passwords, and what is wrong with them.

Upstream: `validateAuthInfo` of k8s.io/client-go/tools/clientcmd.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from understudy.machinery.auth.exec_plugin import MODES, interactive_mode
from understudy.machinery.auth.impersonation import OTHERS
from understudy.machinery.golang.text import go_quote, path_error
from understudy.machinery.types import Obj

_OIDC = "oidc"
_PLUGIN = "kubectl/client-go credential plugin instead.\nSee"
_REMOVED = {  # {provider: what is there in its place}
    "azure": f"https://github.com/Azure/kubelogin {_PLUGIN} https://kubernetes.io/docs/reference/access-authn-authz/"
    "authentication/#client-go-credential-plugins",
    "gcp": f'"gke-gcloud-auth-plugin" {_PLUGIN} https://cloud.google.com/blog/products/containers-kubernetes/'
    "kubectl-auth-changes-in-gke",
}


def password_of(user: Obj) -> str:
    """Return the name and the password of a user as in "name:password", "" for none."""
    name, password = user.get("username") or "", user.get("password") or ""
    return f"{name}:{password}" if name or password else ""


def auth_provider_error(provider: Obj) -> str:
    """Return the error of a user with an `auth-provider`: only OpenID Connect could work, and is not known here.

    Upstream: `GetAuthProvider` of k8s.io/client-go/rest.
    """
    name = str(provider.get("name") or "")
    if name in _REMOVED:
        return f"The {name} auth plugin has been removed.\nPlease use the {_REMOVED[name]} for further details"
    if name != _OIDC:
        return f"no Auth Provider found for name {go_quote(name)}"
    config = provider.get("config") or {}
    missing = [field for field in ("idp-issuer-url", "client-id") if not config.get(field)]
    return f"Must provide {missing[0]}" if missing else "understudy does not support the auth-provider oidc"


def user_errors(name: str, user: Obj, folder: Path) -> list[str]:
    """Return the errors of a user of a kubeconfig."""
    return [*_certificate_errors(name, user, folder), *_exec_errors(name, user), *_method_errors(name, user)]


def unreadable(what: str, path: Path, name: str) -> Iterator[str]:
    """Yield the error of a file, which is `what` of the entry of a name, if it cannot be opened."""
    try:
        path.open("rb").close()
    except IsADirectoryError:  # which Go opens
        return
    except OSError as why:
        yield f"unable to read {what} {path} for {name} due to {path_error(why, path)}"


def _certificate_errors(name: str, user: Obj, folder: Path) -> Iterator[str]:
    """Yield the errors of the certificate of a user and its key."""
    certificate, key = (user.get(field) for field in ("client-certificate", "client-key"))
    certificate_data, key_data = (user.get(field) for field in ("client-certificate-data", "client-key-data"))
    if not certificate and not certificate_data:
        return
    if certificate and certificate_data:
        both = "client-cert-data and client-cert are both specified"
        yield f"{both} for {name}. client-cert-data will override."
    if key and key_data:
        yield f"client-key-data and client-key are both specified for {name}; client-key-data will override"
    if not key and not key_data:
        need = "client-key-data or client-key must be specified"
        yield f"{need} for {name} to use the clientCert authentication method."
    for what, file in (("client-cert", certificate), ("client-key", key)):
        if file:
            yield from unreadable(what, folder / file, name)


def _exec_errors(name: str, user: Obj) -> Iterator[str]:
    """Yield the errors of the command of a user."""
    fields, to_use = user.get("exec"), f"must be specified for {name} to use exec authentication plugin"
    if not fields:
        return
    if user.get("auth-provider"):
        yield f"authProvider cannot be provided in combination with an exec plugin for {name}"
    if not fields.get("command"):
        yield f"command {to_use}"
    if not fields.get("apiVersion"):
        yield f"apiVersion {to_use}"
    for each in fields.get("env") or ():
        if not each.get("name"):
            yield f"env variable name {to_use}"
    mode = interactive_mode(fields)
    if not mode:
        yield f"interactiveMode {to_use}"
    elif mode not in MODES:
        yield f"invalid interactiveMode for {name}: {go_quote(mode)}"


def _method_errors(name: str, user: Obj) -> Iterator[str]:
    """Yield the errors of several ways to log in, and of users who act as another one."""
    if user.get("token") and (user.get("username") or user.get("password")):
        yield (f"more than one authentication method found for {name}; found [token basicAuth], only one is allowed")
    if not user.get("as") and any(user.get(field) for field in OTHERS):
        yield f"requesting uid, groups or user-extra for {name} without impersonating a user"
