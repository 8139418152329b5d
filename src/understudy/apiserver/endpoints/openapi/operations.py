"""The operations of resources in OpenAPI documents: ids, texts, parameters, bodies and answers, as
`k8s.io/apiserver/pkg/endpoints/installer.go` registers them.

kubectl finds kinds in them (explain), and whether PATCH takes fieldValidation and dryRun (apply).
"""

from __future__ import annotations

import re
from functools import cache

from understudy.apiserver.endpoints.negotiation import MEDIA
from understudy.apiserver.endpoints.openapi import parameters
from understudy.machinery.releases.version import Version
from understudy.machinery.types import NamedTuple, Obj

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
DELETE_OPTIONS, STATUS, WATCH_EVENT = f"{META}.DeleteOptions", f"{META}.Status", f"{META}.WatchEvent"
TEXT = "string"  # what operations answer that answer no object
METHODS = ("get", "put", "post", "delete", "options", "head", "patch")  # in the order of path items
_DEPRECATED_WATCH = "deprecated: use the 'watch' parameter with a list operation instead"
_CODES = {"200": "OK", "201": "Created", "202": "Accepted"}
_UNAUTHORIZED: Obj = {"401": {"description": "Unauthorized"}}


class Verb(NamedTuple):
    """The description of a verb.

    begins    what the operation's id begins with; the group and version replace {}, or follow at the end
    about     the description: {kind}, {a_kind} with its article, {of} is "status of " for subresources
    options   types whose fields are parameters
    left_out  fields that are none
    body      "" for none, "object", or the name of a type; `answers` likewise, or "list" or "deleted"
    """

    method: str
    action: str
    begins: str
    about: str
    options: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    body: str = ""
    answers: str = "object"
    codes: tuple[str, ...] = ("200",)


VERBS = {
    "list": Verb("get", "list", "list", "list objects of kind {kind}", ("ListOptions",), answers="list"),
    "create": Verb(
        *("post", "post", "create", "create {of}{a_kind}"),
        options=("CreateOptions",),
        body="object",
        codes=("200", "201", "202"),
    ),
    "deletecollection": Verb(
        *("delete", "deletecollection", "delete{}Collection", "delete collection of {kind}"),
        options=("ListOptions", "DeleteOptions"),
        left_out=("watch", "allowWatchBookmarks"),
        body=DELETE_OPTIONS,
        answers=STATUS,
    ),
    "get": Verb("get", "get", "read", "read {of}the specified {kind}"),
    "update": Verb(
        *("put", "put", "replace", "replace {of}the specified {kind}"),
        options=("UpdateOptions",),
        body="object",
        codes=("200", "201"),
    ),
    "delete": Verb(
        *("delete", "delete", "delete", "delete {of}{a_kind}"),
        options=("DeleteOptions",),
        body=DELETE_OPTIONS,
        answers="deleted",
        codes=("200", "202"),
    ),
    "patch": Verb(
        *("patch", "patch", "patch", "partially update {of}the specified {kind}"),
        options=("PatchOptions",),
        body=f"{META}.Patch",
        codes=("200", "201"),
    ),
}
WATCHABLE_VERBS = VERBS | {"list": VERBS["list"]._replace(about="list or watch objects of kind {kind}")}
WATCH = Verb(
    *("get", "watch", "watch"),
    f"watch changes to an object of kind {{kind}}. {_DEPRECATED_WATCH}, filtered to a single item with the "
    "'fieldSelector' parameter.",
    ("ListOptions",),
    answers=WATCH_EVENT,
)
WATCH_LIST = Verb(
    *("get", "watchlist", "watch"),
    f"watch individual changes to a list of {{kind}}. {_DEPRECATED_WATCH}.",
    ("ListOptions",),
    answers=WATCH_EVENT,
)
# The verbs of custom resources, as far as they are described differently.
CUSTOM_VERBS = {
    **VERBS,
    "deletecollection": VERBS["deletecollection"]._replace(options=("ListOptions",), left_out=(), body=""),
    "get": VERBS["get"]._replace(options=("GetOptions",)),
    "patch": VERBS["patch"]._replace(codes=("200",)),
}


def connect(method: str, options: str) -> Verb:
    """Return the verb of requests that are handed on, such as those of `exec` and `proxy`."""
    about = f"connect {method.upper()} requests to {{of}}{{kind}}"
    return Verb(method, "connect", f"connect{{}}{method.capitalize()}", about, (options,), answers=TEXT)


class Named(NamedTuple):
    """The parts of an operation's id: its group-version, kind, subresource and suffix."""

    group: str
    version: str
    kind: str
    sub: str = ""
    scope: str = ""  # Namespaced, or nothing
    suffix: str = ""

    @property
    def tag(self) -> str:
        """Return the tag of the operation."""
        return tag(self.group, self.version)

    def operation_id(self, verb: Verb) -> str:
        """Return the id of the operation of a verb: `readAppsV1NamespacedDeploymentScale` (`GetOperationIDAndTags`)."""
        group = in_capitals(self.tag)
        begins = verb.begins.format(group) if "{}" in verb.begins else verb.begins + group
        return f"{begins}{self.scope}{self.kind}{self.sub.capitalize()}{self.suffix}"

    def description(self, verb: Verb) -> str:
        """Return the description of the operation of a verb."""
        of = f"{self.sub} of " if self.sub else ""
        return verb.about.format(kind=self.kind, a_kind=_with_article(self.kind), of=of)


def _with_article(noun: str) -> str:
    """Return a noun with its article: plurals have none (`GetArticleForNoun`)."""
    if noun.endswith("s") and not noun.endswith("ss"):
        return noun
    return f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun}"


@cache
def tag(group: str, version: str) -> str:
    """Return the tag of the operations of a group-version, or of a group: `core_v1`, `rbacAuthorization_v1`."""
    first, *words = re.split(r"[^a-zA-Z0-9]", group.removesuffix(".k8s.io") or "core")
    joined = "".join((first, *(word[:1].upper() + word[1:] for word in words)))
    return f"{joined}_{version}" if version else joined


def in_capitals(tag: str) -> str:
    """Return a tag as the names of operations have it: `AppsV1`."""
    return "".join(part[:1].upper() + part[1:] for part in tag.split("_"))


def plain(name: str, tag: str, about: str, answers: str, media: tuple[str, ...] = MEDIA) -> Obj:
    """Return an operation without parameters that answers with a type.

    name  the operation's id
    """
    return {"tags": [tag], "description": about, "operationId": name, "responses": responses(("200",), answers, media)}


def responses(codes: tuple[str, ...], answers: str, media: tuple[str, ...]) -> Obj:
    """Return the answers of an operation by status code."""
    return {code: {"description": _CODES[code], **content(answers, media)} for code in codes} | _UNAUTHORIZED


def content(type_name: str, media: tuple[str, ...]) -> Obj:
    """Return a type, TEXT or nothing ("") in each media type."""
    if not type_name:
        return {}
    schema = {"type": TEXT} if type_name == TEXT else {"$ref": f"#/components/schemas/{type_name}"}
    return {"content": {media_type: {"schema": schema} for media_type in sorted(media)}}


@cache
def parameters_of(version: Version, verb: Verb) -> list[Obj]:
    """Return the parameters in the query of an operation. Only requests that are handed on are not printed `pretty`."""
    out = [] if verb.action == "connect" else [parameters.in_query("pretty", parameters.PRETTY)]
    for options in verb.options:
        out += parameters.of_options(version, options, verb.left_out)
    return out
