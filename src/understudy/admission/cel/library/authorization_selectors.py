"""The selectors of the `authorizer` library (`authzSelectors`), behind a feature gate that is on in 1.32."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from understudy.admission.cel.values import Value

DECLARATIONS = """
fieldSelector
    authorizer_fieldselector: kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck
labelSelector
    authorizer_labelselector: kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck
"""

# Authorizers here know of no selectors: they decide about everything that a selector could choose.
FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "authorizer_fieldselector": lambda check, selector: check,
    "authorizer_labelselector": lambda check, selector: check,
}
