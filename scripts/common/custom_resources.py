"""CustomResourceDefinitions that scripts create."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def served_version(schema: Obj, name: str = "v1", *, storage: bool = True, **fields: Any) -> Obj:
    """Return a served version of a definition, with a schema and other fields."""
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}, **fields}


def definition(group: str, kind: str, *versions: Obj, scope: str = "Cluster") -> Obj:
    """Return a CustomResourceDefinition. Its resource is the kind in lower case, with an s."""
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": scope, "names": {"plural": plural, "kind": kind}, "versions": list(versions)},
    }
