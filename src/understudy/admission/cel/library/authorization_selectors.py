"""The selector calls of the authorizer, behind a feature gate that 1.32 has on."""

from __future__ import annotations

DECLARATIONS = """
fieldSelector
    authorizer_fieldselector: kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck
labelSelector
    authorizer_labelselector: kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck
"""
