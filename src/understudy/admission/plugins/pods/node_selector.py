"""PodNodeSelector: add the node selector of a namespace to its pods, and keep them to the labels that it may select."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.context import Context
from understudy.machinery import errors
from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.yaml_reader import to_json
from understudy.machinery.releases.version import V1_33, Version
from understudy.machinery.selectors.labels import key_errors
from understudy.machinery.types import nested_field
from understudy.machinery.validation.bad_values import Joined
from understudy.machinery.validation.field import Path, invalid
from understudy.machinery.validation.names import label_value_texts

_ANNOTATION = "scheduler.alpha.kubernetes.io/node-selector"
_FIELD, _DEFAULT = "podnodeselectorpluginconfig", "clusterDefaultNodeSelector"


def read_node_selectors(data: bytes | None, version: Version) -> dict[str, str]:
    """Return the selectors of a configuration: the default one, and those that namespaces may use (`readConfig`).

    A configuration that cannot be read is like none. What is no text in JSON is left out before 1.33.
    """
    if data is None:
        return {}
    try:
        document = orjson.loads(to_json(data)[0])
    except (DecodeError, orjson.JSONDecodeError):
        return {}
    fields = document if isinstance(document, dict) else {}
    selectors = next((value for name, value in fields.items() if name.lower() == _FIELD), None)
    if not isinstance(selectors, dict):
        return {}
    converts = version >= V1_33 or not data.lstrip().startswith(b"{")
    texts = {name: _text(value, converts) for name, value in selectors.items()}
    return {name: text for name, text in texts.items() if text is not None}


def _text(value: object, converts: bool) -> str | None:
    """Return a value as text. What is none is the text that YAML has for it, or None unless it `converts`."""
    if value is None or isinstance(value, str):
        return value or ""
    return orjson.dumps(value).decode() if converts else None


class PodNodeSelector:
    """Merges the node selector of a namespace, or the default one, into pods, and refuses those that contradict it.

    selectors  {"clusterDefaultNodeSelector": a selector, namespace: the labels that its pods may select}
    """

    name = "PodNodeSelector"

    def __init__(self, selectors: Mapping[str, str]) -> None:
        self._selectors = selectors

    def handles(self, point: Point) -> bool:
        return point[:4] == (Operation.CREATE, "", "pods", "")

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        """Add what the namespace selects. Raises as `validate`."""
        spec, selected = attributes.new["spec"], self._checked(attributes, ctx)
        if merged := {**selected, **spec.get("nodeSelector", {})}:
            spec["nodeSelector"] = merged
        await self.validate(attributes, ctx)

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 for a pod that selects other nodes than its namespace may, and 500 for a selector that is none."""
        self._checked(attributes, ctx)
        allowed = _labels_of(self._selectors.get(attributes.namespace, ""), ctx.release)
        selected = attributes.new["spec"].get("nodeSelector", {})
        if allowed and not selected.items() <= allowed.items():
            raise _refused(attributes, "pod node label selector labels conflict with its namespace whitelist")

    def _checked(self, attributes: Attributes, ctx: Context) -> dict[str, str]:
        """Return the labels that the namespace selects, which the pod must not contradict."""
        namespace = ctx.lookup("", "namespaces", "", attributes.namespace)
        if namespace is None:
            raise errors.internal_error(f"namespace {attributes.namespace} does not exist")
        annotations = nested_field(namespace, "metadata", "annotations", default={})
        labels = _labels_of(annotations.get(_ANNOTATION, self._selectors.get(_DEFAULT, "")), ctx.release)
        selected = attributes.new["spec"].get("nodeSelector", {})
        if any(labels.get(key, value) != value for key, value in selected.items()):
            raise _refused(attributes, "pod node label selector conflicts with its namespace node label selector")
        return labels


def _refused(attributes: Attributes, why: str) -> errors.StatusError:
    return errors.forbidden("", "pods", attributes.new["metadata"].get("name", ""), why)


def _labels_of(selector: str, version: Version) -> dict[str, str]:
    """Return the labels of a selector such as "a=b,c=d" (`ConvertSelectorToLabelsMap`). Raises 500."""
    labels = {}
    for term in selector.split(",") if selector else ():
        parts = term.split("=")
        if len(parts) != 2:
            raise errors.unknown_error(f"invalid selector: [{' '.join(parts)}]")
        key, value = (part.strip() for part in parts)
        wrong = key_errors(key, Path("<nil>"))
        if texts := label_value_texts(value):
            wrong.append(invalid(Path().key(key), value, Joined(texts)))
        if wrong:
            raise errors.unknown_error(wrong[0].text(version))
        labels[key] = value
    return labels
