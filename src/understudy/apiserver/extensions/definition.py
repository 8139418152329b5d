"""A custom resource definition as the server reads it: which kind it defines, and in which versions."""

from __future__ import annotations

from base64 import b64decode
from functools import cached_property

from understudy.apiserver.extensions.version_order import priority_key
from understudy.machinery.types import Obj, condition_is_true, nested_field


class Definition:
    """A definition. Only its spec, its accepted names, its uid and whether its spec has changed decide what is served.

    obj  the stored definition
    """

    def __init__(self, obj: Obj) -> None:
        self.obj = obj
        spec, names = obj["spec"], nested_field(obj, "status", "acceptedNames", default={})
        self.name: str = obj["metadata"]["name"]
        self.group: str = spec["group"]
        self.plural: str = spec["names"]["plural"]
        self.namespaced: bool = spec["scope"] == "Namespaced"
        self.kind: str = names.get("kind", "")
        self.list_kind: str = names.get("listKind", "")
        self.singular: str = names.get("singular", "")
        self.short_names: tuple[str, ...] = tuple(names.get("shortNames") or ())
        self.categories: tuple[str, ...] = tuple(names.get("categories") or ())
        self.preserves_unknown_fields: bool = spec.get("preserveUnknownFields") or False
        self.versions: dict[str, Obj] = {version["name"]: version for version in spec["versions"]}
        self.has_changed: bool = obj["metadata"].get("generation", 1) > 1
        self.is_terminating = condition_is_true(obj, "Terminating")
        self.is_established = condition_is_true(obj, "Established")
        self.is_served = self.is_established or condition_is_true(obj, "NamesAccepted")

    @cached_property
    def served_versions(self) -> tuple[str, ...]:
        """Return the names of the versions that are served, the preferred one first."""
        return tuple(sorted((name for name, v in self.versions.items() if v["served"]), key=priority_key))

    @cached_property
    def storage_version(self) -> str:
        """Return the version in which objects are stored."""
        return next(name for name, version in self.versions.items() if version["storage"])

    @property
    def conversion_webhook(self) -> Obj | None:
        """Return the webhook that converts objects between versions, None if only their apiVersion changes."""
        conversion = self.obj["spec"].get("conversion") or {}
        return conversion["webhook"] if conversion.get("strategy") == "Webhook" else None

    @cached_property
    def ca_bundle(self) -> bytes:
        """Return the certificates (PEM) that the conversion webhook is verified with, b"" if there are none."""
        config = (self.conversion_webhook or {}).get("clientConfig") or {}
        return b64decode(config.get("caBundle") or "")

    @cached_property
    def has_invalid_ca_bundle(self) -> bool:
        """Report whether the certificates of the conversion webhook cannot be read: it is not established then."""
        if not self.ca_bundle:
            return False
        from understudy.machinery.golang.x509.x509 import ca_bundle_error  # most definitions have no webhook

        return bool(ca_bundle_error(self.ca_bundle))

    def api_version(self, version: str) -> str:
        """Return the apiVersion of objects in a version."""
        return f"{self.group}/{version}"

    def subresources(self, version: str) -> Obj:
        """Return the subresources of a version as it declares them: `{"status": {}, "scale": {…}}`."""
        declared: Obj = self.versions[version].get("subresources") or {}
        return declared

    def schema(self, version: str) -> Obj:
        """Return the `openAPIV3Schema` of a version."""
        schema: Obj = nested_field(self.versions[version], "schema", "openAPIV3Schema", default={})
        return schema

    def deprecation_warning(self, version: str) -> str:
        """Return the warning of a deprecated version, "" for any other (`defaultDeprecationWarning`)."""
        declared = self.versions[version]
        if not declared.get("deprecated"):
            return ""
        if declared.get("deprecationWarning") is not None:
            return str(declared["deprecationWarning"])
        kind = self.obj["spec"]["names"]["kind"]
        text = f"{self.api_version(version)} {kind} is deprecated"
        newer = [
            name
            for name in self.served_versions
            if priority_key(name) < priority_key(version) and not self.versions[name].get("deprecated")
        ]
        return f"{text}; use {self.api_version(newer[0])} {kind}" if newer else text

    def serves_the_same(self, other: Definition) -> bool:
        """Report whether another definition serves the same kinds in the same way, and with the same verbs."""
        return self.is_terminating == other.is_terminating and self.defines_the_same(other)

    def defines_the_same(self, other: Definition) -> bool:
        """Report whether another definition defines the same kinds in the same way."""
        mine, theirs = self.obj, other.obj
        return bool(
            mine["metadata"].get("uid") == theirs["metadata"].get("uid")
            and mine["spec"] == theirs["spec"]
            and mine["status"].get("acceptedNames") == theirs["status"].get("acceptedNames")
        )
