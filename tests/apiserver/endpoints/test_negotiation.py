"""Negotiation of Accept and Content-Type: the chosen forms, and the real server's refusals."""

from __future__ import annotations

import pytest

from understudy.apiserver.endpoints.negotiation import (
    API,
    APIS,
    BETA_API,
    BETA_APIS,
    JSON,
    LIST,
    LOG,
    OBJECT,
    PLAIN,
    PROTOBUF,
    UNROUTED,
    UNTABLED,
    YAML,
    Endpoint,
    Output,
    body_type,
    error_output,
    output,
    patch_type,
    route,
    wants_pretty,
    watch_output,
)
from understudy.machinery.errors import StatusError
from understudy.machinery.options import Query

META = ";v=v1;g=meta.k8s.io"
V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2BETA1 = V2.replace("v=v2", "v=v2beta1")
MEDIA = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
STREAMS = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
ROUTER = "406: Not Acceptable\n\nAvailable representations: "
HANDLER = "only the following media types are accepted: "


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", Output()),
        ("*/*", Output()),
        (YAML, Output(YAML)),
        (f"{YAML}, {JSON}", Output(YAML)),
        (f"{JSON};q=0.5, {YAML};q=0.9", Output(YAML)),
        ("image/png,*/*;q=0.1", Output()),
        (f"{PROTOBUF},{JSON}", Output(PROTOBUF)),
        (f"{JSON};pretty=1", Output(pretty=True)),
        (f"{JSON};stream=watch", Output()),
        (f"{JSON};as=Table{META}", Output(JSON, "Table", "v1")),
        (f"{YAML};as=Table{META}", Output(YAML, "Table", "v1")),
        (f"{JSON};as=Table;v=v1beta1;g=meta.k8s.io", Output(JSON, "Table", "v1beta1")),
        (f"{JSON};as=Table;v=v2;g=meta.k8s.io,{JSON}", Output()),
        (f"{PROTOBUF};as=Table{META},{JSON}", Output()),
        (f"{PROTOBUF};as=PartialObjectMetadata{META}", Output(PROTOBUF, "PartialObjectMetadata", "v1")),
    ],
)
def test_best_acceptable_form_is_chosen(accept: str, expected: Output) -> None:
    """The first clause, by quality, that the endpoint can serve is the form of the answer."""
    assert output(accept, OBJECT) == expected


@pytest.mark.parametrize(
    ("accept", "endpoint", "message"),
    [
        ("text/plain", OBJECT, ROUTER + MEDIA),
        ("application/*", OBJECT, ROUTER + MEDIA),
        ("text/plain", LIST, f"{ROUTER}{MEDIA}, {STREAMS}"),
        ("image/png", LOG, f"{ROUTER}text/plain, {MEDIA}"),
        ("image/png", UNROUTED, HANDLER + MEDIA),
        (f"{JSON};as=Wrong{META}", OBJECT, HANDLER + MEDIA),
        (f"{PROTOBUF};as=Table{META}", LIST, HANDLER + MEDIA),
        (f"{JSON};as=Table{META}", PLAIN, HANDLER + MEDIA),
        (f"{JSON};as=Table{META}", UNTABLED, HANDLER + MEDIA),
        (V2.replace("v2", "v9"), UNROUTED, HANDLER + MEDIA),
    ],
)
def test_unacceptable_forms_are_406(accept: str, endpoint: Endpoint, message: str) -> None:
    """A form that nobody serves is 406, in the router's words or the handler's."""
    with pytest.raises(StatusError) as refused:
        output(accept, endpoint)
    assert (refused.value.code, refused.value.message) == (406, message)
    assert refused.value.details == ({} if message.startswith("406") else None)


def test_unrouted_endpoints_understand_wildcards() -> None:
    """Endpoints without a router in front accept `application/*`."""
    assert output("application/*", UNROUTED) == Output()


def test_version_ignores_transformations() -> None:
    """/version looks at media types only, and ignores `as=Table`."""
    route(f"{JSON};as=Table{META}", (JSON,))
    with pytest.raises(StatusError, match=ROUTER + JSON):
        route(YAML, (JSON,))


def test_watch_forms() -> None:
    """A watch is streamed as JSON or protobuf, never as YAML."""
    assert watch_output("*/*").watch_type == JSON
    assert watch_output(f"{PROTOBUF};stream=watch").watch_type == f"{PROTOBUF};stream=watch"
    with pytest.raises(StatusError, match=f"{HANDLER}{STREAMS}"):
        watch_output(YAML)


def test_errors_ignore_transformations() -> None:
    """An error is never a table, and is indented JSON for clients that accept nothing."""
    assert error_output(YAML) == Output(YAML)
    assert error_output(f"{JSON};as=Table{META},{YAML}") == Output(YAML)
    assert error_output("image/png") == Output(pretty=True)


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        (V2, "v2"),
        (f"{V2},{V2BETA1},application/json", "v2"),
        (f"{V2BETA1},application/json", "v2beta1"),
        (f"application/json,{V2}", "v2"),
        (f"application/yaml;q=0.5,{V2};q=0.1", "v2"),
        ("application/json", ""),
        ("", ""),
        (V2.replace("v2", "v9") + ",*/*", ""),
    ],
)
def test_any_clause_can_ask_for_aggregated_discovery(accept: str, version: str) -> None:
    """Aggregated discovery is served if any clause asks for it, on /api and /apis only."""
    assert output(accept, BETA_API).target_version == output(accept, BETA_APIS).target_version == version
    left = "" if version == "v2beta1" else version  # since 1.33
    assert output(accept, API).target_version == output(accept, APIS).target_version == left


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("", JSON),
        ("application/json; charset=utf-8", JSON),
        ("Application/JSON", JSON),
        (YAML, YAML),
        (PROTOBUF, PROTOBUF),
        ("text/plain", None),
        ("garbage", None),
        ("application/merge-patch+json", None),
        ("application/json; charset", None),
    ],
)
def test_content_type_of_bodies(content_type: str, expected: str | None) -> None:
    """A body without Content-Type is JSON; an unknown type is 415."""
    if expected:
        assert body_type(content_type) == expected
        return
    with pytest.raises(StatusError, match=f"accepted media types include: {MEDIA}") as refused:
        body_type(content_type)
    assert refused.value.code == 415


def test_patch_needs_a_media_type() -> None:
    """A patch must name its type, with or without parameters."""
    headers = {"Content-Type": "application/merge-patch+json; charset=utf-8"}
    assert patch_type(headers) == "application/merge-patch+json"


def test_list_of_patch_types() -> None:
    """The router accepts a list of types with a known one in it; the handler refuses it."""
    with pytest.raises(StatusError) as refused:
        patch_type({"Content-Type": "application/merge-patch+json, x", "Content-Length": "2"})
    assert (refused.value.code, refused.value.message[:15]) == (415, "the body of the")


@pytest.mark.parametrize(
    ("length", "message"),
    [
        ({"Content-Length": "2"}, "415: Unsupported Media Type"),
        ({}, "415: Unsupported Media Type\n\nAvailable representations: "),
        ({"Content-Length": "0"}, "406: Not Acceptable\n\nAvailable representations: "),
    ],
    ids=["a body", "no length", "no body"],
)
def test_unknown_patch_type_is_refused(length: dict[str, str], message: str) -> None:
    """A type that is no patch is refused with the type that the router compared last."""
    with pytest.raises(StatusError) as refused:
        patch_type({"Content-Type": "application/json", **length})
    assert (refused.value.code, refused.value.message) == (int(message[:3]), message)


@pytest.mark.parametrize(
    ("query", "agent", "pretty"),
    [
        ("", "curl/8.0", True),
        ("", "Wget/1.21", True),
        ("", "Mozilla/5.0 (X11)", True),
        ("", "kubectl/v1.32.0", False),
        ("pretty=true", "kubectl/v1.32.0", True),
        ("pretty=false", "Mozilla/5.0", False),
        ("pretty=", "curl/8.0", True),
        ("pretty=yes", "curl/8.0", False),
    ],
)
def test_browsers_get_indented_json(query: str, agent: str, pretty: bool) -> None:
    """Browsers and curl get indented JSON unless `pretty` says otherwise."""
    assert wants_pretty(Query(query), agent) is pretty
