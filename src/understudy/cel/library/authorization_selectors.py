"""The selectors of the `authorizer` library (`authzSelectors`), behind a feature gate that is on in 1.32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from understudy.cel.values import Value
from understudy.machinery.auth.authorization import field_terms, label_requirements

FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "authorizer_fieldselector": lambda check, selector: replace(check, field_selector=field_terms(selector)),
    "authorizer_labelselector": lambda check, selector: replace(check, label_selector=label_requirements(selector)),
}
