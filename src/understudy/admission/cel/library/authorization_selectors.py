"""The selectors of the `authorizer` library (`authzSelectors`), behind a feature gate that is on in 1.32."""

from __future__ import annotations

DECLARATIONS = """
fieldSelector
    authorizer_fieldselector: kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck
labelSelector
    authorizer_labelselector: kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck
"""
