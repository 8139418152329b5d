"""The smallest roles that allow actions, and their bindings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

from understudy.apiserver.authorization.rbac.authorizer import GROUP
from understudy.apiserver.permissions.log import Note
from understudy.apiserver.permissions.resource_names import ResourceName
from understudy.machinery.auth.authorization import Attributes
from understudy.machinery.auth.users import ACCOUNT
from understudy.machinery.types import Obj
from understudy.machinery.util.regex import regex

API_VERSION = f"{GROUP}/v1"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")  # of requests

BUILT_IN = ("admin", "cluster-admin", "edit", "view")  # cluster roles for users
_NOT_IN_NAMES = regex("[:/%]")  # a colon could be in one, but looks like a name of Kubernetes' own


def resource_of(action: Attributes) -> ResourceName:
    """Return the resource of an action, with its subresource."""
    resource = f"{action.resource}/{action.subresource}" if action.subresource else action.resource
    return ResourceName(action.group, resource)


def namespace_of(action: Attributes) -> str:
    """Return the namespace whose roles can allow an action, "" if only cluster roles can."""
    return action.namespace if action.is_resource else ""


def rule_key(action: Attributes) -> tuple[str, ...]:
    """Return the place of an action in the rules of a role."""
    return (action.verb, *resource_of(action)) if action.is_resource else (action.verb, action.path)


def role_name(user: str) -> str:
    """Return a name for the roles of a user: `default-robot` for the service account `robot` of `default`.

    It is never that of a role which every cluster has.
    """
    name = _NOT_IN_NAMES.sub("-", user.removeprefix(ACCOUNT))
    return f"user-{name}" if name in BUILT_IN else name


def role(name: str, namespace: str, rules: Sequence[Obj]) -> Obj:
    """Return a Role of a namespace, or a ClusterRole ("" as namespace)."""
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    kind = "Role" if namespace else "ClusterRole"
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "rules": list(rules)}


def binding(role: Obj, user: str) -> Obj:
    """Return the binding of a role, which has its name, to a user or a service account."""
    subject: Obj = {"apiGroup": GROUP, "kind": "User", "name": user}
    if user.startswith(ACCOUNT):
        namespace, _, name = user.removeprefix(ACCOUNT).partition(":")
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    return {
        "apiVersion": API_VERSION,
        "kind": f"{role['kind']}Binding",
        "metadata": role["metadata"],
        "roleRef": {"apiGroup": GROUP, "kind": role["kind"], "name": role["metadata"]["name"]},
        "subjects": [subject],
    }


def role_with_binding(user: str, verbs: Sequence[str], resources: Sequence[str], namespace: str) -> list[Obj]:
    """Return a role that allows verbs on resources, as people write them, and its binding to a user.

    The same arguments give the same names.
    """
    digest = sha256(repr((sorted(verbs), sorted(resources))).encode()).hexdigest()
    made = role(f"{role_name(user)}-{digest[:8]}", namespace, _rules(verbs, resources))
    return [made, binding(made, user)]


def _rules(verbs: Sequence[str], resources: Sequence[str]) -> list[Obj]:
    """Return the rules that allow verbs on resources, and on paths, which begin with a slash."""
    groups: dict[str, list[str]] = {}
    for name in map(ResourceName.parse, (text for text in resources if not text.startswith("/"))):
        groups.setdefault("*" if name.resource == "*" and not name.group else name.group, []).append(name.resource)
    rules: list[Obj] = [
        {"apiGroups": [group], "resources": names, "verbs": list(verbs)} for group, names in groups.items()
    ]
    urls = [text for text in resources if text.startswith("/")]
    return rules + ([{"nonResourceURLs": urls, "verbs": list(verbs)}] if urls else [])


def smallest_rules(notes: Iterable[Note]) -> list[Obj]:
    """Return rules that allow what was noted: resources of a group with the same verbs share one, and so do paths."""
    verbs: dict[tuple[str, str, tuple[str, ...]], set[str]] = {}
    paths: dict[str, set[str]] = {}
    for note in notes:
        action = note.action
        if action.is_resource:
            verbs.setdefault((*resource_of(action), _names(note)), set()).add(action.verb)
        else:
            paths.setdefault(action.path, set()).add(action.verb)
    shared: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (group, resource, names), each in sorted(verbs.items()):
        shared.setdefault((group, names, _ordered(each)), []).append(resource)
    rules: list[Obj] = []
    for (group, names, allowed), resources in shared.items():
        named = {"resourceNames": list(names)} if names else {}
        rules.append({"apiGroups": [group], "resources": resources, **named, "verbs": list(allowed)})
    of_paths: dict[tuple[str, ...], list[str]] = {}
    for path, each in sorted(paths.items()):
        of_paths.setdefault(_ordered(each), []).append(path)
    return rules + [{"nonResourceURLs": urls, "verbs": list(allowed)} for allowed, urls in of_paths.items()]


def _names(note: Note) -> tuple[str, ...]:
    """Return the names that a rule has to name: those of signers, drivers and others that are no objects.

    Objects come and go, so that a rule about them names none.
    """
    return () if note.action.verb in VERBS else tuple(sorted(filter(None, note.names)))


def _ordered(verbs: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(verbs, key=lambda verb: (VERBS.index(verb) if verb in VERBS else len(VERBS), verb)))
