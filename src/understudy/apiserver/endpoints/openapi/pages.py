"""The OpenAPI documents of pages that are no resources: lists of versions and groups, keys, the server's version."""

from __future__ import annotations

from understudy.apiserver.endpoints.negotiation import JSON, MEDIA
from understudy.apiserver.endpoints.openapi.operations import META, TEXT, in_capitals, plain, tag
from understudy.machinery.releases.recorded import read_release_file
from understudy.machinery.releases.version import V1_31, V1_33, ByRelease, Version
from understudy.machinery.types import NamedTuple, Obj

_GROUP, _GROUPS = f"{META}.APIGroup", f"{META}.APIGroupList"


class Page(NamedTuple):
    """A page: its operation's id, tag and description, and the type and media types of its answer.

    types  the file of `schemas/RELEASE/openapi` that has the type, "" for text
    """

    operation: str
    tag: str
    about: str | ByRelease[str]
    answers: str = TEXT
    media: tuple[str, ...] = MEDIA
    types: str = ""

    def paths(self, name: str, version: Version) -> Obj:
        """Return {path: path item} of the page at a path, which is given without slashes around."""
        about = self.about if isinstance(self.about, str) else self.about[version]
        return {f"/{name}/": {"get": plain(self.operation, self.tag, about, self.answers, self.media)}}

    def schemas(self, version: Version) -> Obj:
        """Return the schemas of the document, by name."""
        if not self.types:
            return {}
        schemas: Obj = read_release_file(version, f"openapi/{self.types}.json")["components"]["schemas"]
        return {name: schema for name, schema in schemas.items() if name != _GROUPS or name == self.answers}


PAGES = {
    ".well-known/openid-configuration": Page(
        "getServiceAccountIssuerOpenIDConfiguration",
        "WellKnown",
        "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
        media=(JSON,),
    ),
    "api": Page("getCoreAPIVersions", "core", "get available API versions", f"{META}.APIVersions", types="api"),
    "apis": Page("getAPIVersions", "apis", "get available API versions", _GROUPS, types="apis"),
    "openid/v1/jwks": Page(
        "getServiceAccountIssuerOpenIDKeyset",
        "openid",
        "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
        media=("application/jwk-set+json",),
    ),
    "version": Page(
        "getCodeVersion",
        "version",
        ByRelease({V1_33: "get the version information for this server", V1_31: "get the code version"}),
        "io.k8s.apimachinery.pkg.version.Info",
        (JSON,),
        "version",
    ),
}


def page_of_group(group: str) -> Page:
    """Return the page of an API group, whose type is a part of the list of groups."""
    of = tag(group, "")
    return Page(f"get{in_capitals(of)}APIGroup", of, "get information of a group", _GROUP, types="apis")
