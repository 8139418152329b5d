"""Lists of objects, and the selectors that choose them."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.apiserver.client.kind_names import find
from understudy.apiserver.client.loopback import Client
from understudy.machinery.types import Obj

Selector = str | Mapping[str, str]


class ObjectList(list[Obj]):
    """Objects of a kind, each with its kind and apiVersion.

    resource_version  of the list: a watch that begins there sees every later change
    """

    resource_version = ""

    @classmethod
    def of(cls, listed: Obj) -> ObjectList:
        """Return the items of a list of the API, whose kind and apiVersion the list says for them."""
        head = {"kind": listed["kind"].removesuffix("List"), "apiVersion": listed["apiVersion"]}
        objects = cls({**head, **item} for item in listed["items"])
        objects.resource_version = listed["metadata"].get("resourceVersion", "")
        return objects


async def list_objects(client: Client, kind: str, namespace: str, query: Mapping[str, str]) -> ObjectList:
    """Return the objects of a namespace, "" for all, that the selectors in a query match. Raises StatusError."""
    return ObjectList.of(await client.get(find(client.serving, kind).collection(namespace), query))


async def list_object(client: Client, kind: str, name: str, namespace: str) -> ObjectList:
    """Return a list of one object, or of none if there is no such object. Raises StatusError, RequestError."""
    served = find(client.serving, kind)
    served.object(namespace, name)  # refuses what is not the name of one object
    query = selector_query("", {"metadata.name": name})
    return ObjectList.of(await client.get(served.collection(namespace), query))


def selector_query(labels: Selector, fields: Selector) -> Mapping[str, str]:
    """Return the parameters of a list that selectors stand for."""
    return {"labelSelector": _text(labels), "fieldSelector": _text(fields)}


def _text(selector: Selector) -> str:
    """Return a selector as the text of a parameter."""
    if isinstance(selector, str):
        return selector
    return ",".join(f"{name}={value}" for name, value in selector.items())
