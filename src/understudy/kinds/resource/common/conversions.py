"""Conversions of resource.k8s.io: v1alpha3 and v1beta1 have a flat form; v1beta2 and v1 are the internal form.

v1alpha3 has a capacity as a quantity, the others as `{"value": quantity}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from understudy.kinds.declarations.kind import Conversion
from understudy.kinds.resource.common.flat_form import flat_claim, flat_slice, nested_claim, nested_slice
from understudy.machinery.releases.version import V1_31, V1_33, ByRelease
from understudy.machinery.types import Obj

ConvertSpec = Callable[[Obj], Obj]


def _of_spec(to_internal: ConvertSpec, from_internal: ConvertSpec, *, lossless: bool = False) -> Conversion:
    """Return a conversion of objects of whose fields only the spec differs."""
    return Conversion(_in_spec(to_internal), _in_spec(from_internal), lossless)


def _in_spec(convert: ConvertSpec) -> ConvertSpec:
    """Return the conversion of what holds a spec: an object, or a template's spec.

    Apply converts objects whose spec it has removed. In Go it is an empty struct then.
    """
    return lambda obj: {**obj, "spec": convert(obj.get("spec") or {})}


def _capacity(quantity: Any) -> Obj:
    return {"value": quantity}


def _quantity(capacity: Obj) -> Any:
    return capacity["value"]


def _of_slices(*, as_internal: bool) -> Mapping[str, Conversion]:
    return {
        "v1beta1": _of_spec(partial(nested_slice, as_internal=as_internal), flat_slice),
        "v1alpha3": _of_spec(
            partial(nested_slice, capacity=_capacity, as_internal=as_internal),
            partial(flat_slice, capacity=_quantity),
        ),
    }


FLAT_VERSIONS = ("v1beta1", "v1alpha3")
CLAIM = dict.fromkeys(FLAT_VERSIONS, _of_spec(nested_claim, flat_claim, lossless=True))
TEMPLATE = dict.fromkeys(FLAT_VERSIONS, _of_spec(_in_spec(nested_claim), _in_spec(flat_claim), lossless=True))
SLICE = ByRelease({V1_33: _of_slices(as_internal=False), V1_31: _of_slices(as_internal=True)})
