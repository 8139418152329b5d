"""Tables and metadata-only forms of objects."""

from __future__ import annotations

from typing import Any

import pytest

from tests.releases import NEWEST
from understudy.apiserver.endpoints.negotiation import LOG, OBJECT, UNTABLED, Endpoint, Output
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.responsewriters.tables import (
    check_conversion,
    endpoint,
    partial,
    partial_list,
    scale_table,
    table,
)
from understudy.apiserver.serving.release import Release
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.errors import StatusError
from understudy.machinery.options import Query

TABLE = Output(target="Table", target_version="v1")
OLD = {"creationTimestamp": "2020-01-01T00:00:00Z", "resourceVersion": "7"}


def of(group: str, name: str) -> Kind:
    kind = Release.of(NEWEST).kind(group, name)
    assert kind is not None
    return kind


def get(query: str = "") -> Request:
    return Request("GET", "/", {}, b"", Query(query), NEWEST)


def claim(**more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", **OLD}, "spec": {"devices": {}}, **more}


def typed(obj: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1beta1", **obj}


def rows(query: str = "") -> list[Any]:
    obj = claim()
    kind = of("resource.k8s.io", "ResourceClaim")
    result = table(kind, "v1beta1", [obj], versioned=[typed(obj)], request=get(query), form=TABLE, metadata={})
    return list(result["rows"])


def test_table_of_one_object() -> None:
    """A table of one object has the columns of its kind and the object's resourceVersion."""
    obj = claim()
    kind = of("resource.k8s.io", "ResourceClaim")
    result = table(kind, "v1beta1", [obj], versioned=[typed(obj)], request=get(), form=TABLE)
    assert list(result) == ["kind", "apiVersion", "metadata", "columnDefinitions", "rows"]
    assert (result["kind"], result["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert result["metadata"] == {"resourceVersion": "7"}
    assert [column["name"] for column in result["columnDefinitions"]] == ["Name", "State", "Age"]
    assert result["rows"][0]["cells"][0] == "a"


def test_include_object() -> None:
    """Rows hold metadata unless includeObject asks for the object or for nothing."""
    metadata = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a", **OLD}}
    assert rows()[0]["object"] == rows("includeObject=Metadata")[0]["object"] == metadata
    assert rows("includeObject=Object")[0]["object"] == typed(claim())
    assert rows("includeObject=None")[0]["object"] is None
    with pytest.raises(StatusError, match='includeObject: Invalid value: "Bad": must be '):
        rows("includeObject=Bad")


def test_v1beta1_table() -> None:
    """A table of meta.k8s.io/v1beta1 says so itself and in its rows."""
    form = Output(target="Table", target_version="v1beta1")
    obj = claim()
    kind = of("resource.k8s.io", "ResourceClaim")
    result = table(kind, "v1beta1", [obj], versioned=[typed(obj)], request=get(), form=form)
    assert result["apiVersion"] == result["rows"][0]["object"]["apiVersion"] == "meta.k8s.io/v1beta1"


def test_empty_rows_and_later_columns() -> None:
    """A table without objects has an empty list of rows; later events of a watch have null columns."""
    kind = of("", "ConfigMap")
    result = table(
        kind, "v1", [], versioned=[], request=get(), form=TABLE, metadata={"resourceVersion": "9"}, columns=False
    )
    assert result["rows"] == []
    assert result["columnDefinitions"] is None
    assert result["metadata"] == {"resourceVersion": "9"}


@pytest.mark.parametrize("kind", list(Release.of(NEWEST).kinds), ids=lambda kind: f"{kind.group}/{kind.name}")
def test_every_kind_has_a_cell_for_each_column(kind: Kind) -> None:
    """An object with no more than a name is printed with one cell for each column.

    Upstream prints the age of an IPAddress, for which it has no column.
    """
    without_column = 1 if kind.name == "IPAddress" else 0
    for version, columns in kind.columns.items():
        obj = {"metadata": {"name": "a", **OLD}, "spec": {"driver": "", "pool": {"name": ""}}, "status": {}}
        result = table(kind, version, [obj], versioned=[obj], request=get(), form=TABLE)
        assert len(result["rows"][0]["cells"]) == len(columns) + without_column


@pytest.mark.parametrize(
    ("group", "name", "subresource", "expected"),
    [
        ("", "Pod", "", OBJECT),
        ("", "Pod", "status", OBJECT),
        ("", "Pod", "ephemeralcontainers", UNTABLED),
        ("", "Pod", "eviction", UNTABLED),
        ("", "Pod", "resize", UNTABLED),
        ("", "Pod", "log", LOG),
        ("apps", "Deployment", "scale", OBJECT),
        ("resource.k8s.io", "ResourceClaim", "status", UNTABLED),
        ("resource.k8s.io", "DeviceTaintRule", "status", UNTABLED),
        ("resource.k8s.io", "ResourcePoolStatusRequest", "status", UNTABLED),
        ("scheduling.k8s.io", "PodGroup", "status", UNTABLED),
        ("authorization.k8s.io", "SelfSubjectAccessReview", "", UNTABLED),
        ("", "ComponentStatus", "", OBJECT),
    ],
)
def test_tables_of_subresources(group: str, name: str, subresource: str, expected: Endpoint) -> None:
    """Some subresources have no columns and cannot be read as tables."""
    assert endpoint(of(group, name), subresource) == expected


def test_table_of_a_scale() -> None:
    """The table of a Scale shows desired and observed replicas."""
    kind = of("apps", "Deployment")
    scale = {"metadata": {"name": "d", **OLD}, "spec": {"replicas": 2}, "status": {"replicas": 0}}
    result = scale_table(kind, "v1", scale, request=get("includeObject=None"), form=TABLE)
    assert [(c["name"], c["type"]) for c in result["columnDefinitions"]] == [
        ("Name", "string"),
        ("Desired", "integer"),
        ("Available", "integer"),
        ("Age", "string"),
    ]
    assert result["rows"][0]["cells"][:3] == ["d", 2, 0]
    assert result["metadata"] == {"resourceVersion": "7"}


def test_metadata_only_lists() -> None:
    """A list of metadata keeps the list's own metadata; an empty one has null items."""
    one = partial(claim()["metadata"], "v1")
    assert one == {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": claim()["metadata"]}
    result = partial_list([claim()["metadata"]], "v1beta1", {"resourceVersion": "9", "continue": "x"})
    assert result["metadata"] == {"resourceVersion": "9", "continue": "x"}
    assert result["items"][0]["apiVersion"] == result["apiVersion"] == "meta.k8s.io/v1beta1"
    assert partial_list([], "v1", {})["items"] is None


@pytest.mark.parametrize(
    ("group", "name", "target", "listing", "message"),
    [
        ("", "ConfigMap", "PartialObjectMetadataList", False, "the requested object is not a list (*core.ConfigMap)"),
        ("", "ConfigMap", "PartialObjectMetadata", True, "the requested object is a list (*core.ConfigMapList)"),
        ("resource.k8s.io", "ResourceClaim", "PartialObjectMetadata", True, "a list (*resource.ResourceClaimList)"),
        ("apps", "Deployment", "PartialObjectMetadataList", False, "not a list (*apps.Deployment)"),
    ],
)
def test_mismatched_forms_are_refused(group: str, name: str, target: str, listing: bool, message: str) -> None:
    """An object as a list of metadata, or a list as one, is refused with the Go type in the error."""
    form = Output(target=target, target_version="v1")
    with pytest.raises(StatusError) as refused:
        check_conversion(form, of(group, name), listing=listing)
    assert refused.value.code == 406
    assert refused.value.message.startswith(f"you requested {target}, but ")
    assert refused.value.message.endswith(message)
    check_conversion(form, of(group, name), listing=not listing)
