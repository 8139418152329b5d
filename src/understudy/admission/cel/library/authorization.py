"""The `authorizer` library of admission policies (`authz.go`).

Every environment declares it, but only policies have a value to call it on.
"""

from __future__ import annotations

DECLARATIONS = """
allowed
    decision_allowed: kubernetes.authorization.Decision.() -> bool
check
    pathcheck_check: kubernetes.authorization.PathCheck.(string) -> kubernetes.authorization.Decision
    resourcecheck_check: kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.Decision
error
    decision_error: kubernetes.authorization.Decision.() -> string
errored
    decision_errored: kubernetes.authorization.Decision.() -> bool
group
    authorizer_group: kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.GroupCheck
name
    resourcecheck_name: kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck
namespace
    resourcecheck_namespace: kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck
path
    authorizer_path: kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.PathCheck
reason
    decision_reason: kubernetes.authorization.Decision.() -> string
resource
    groupcheck_resource: kubernetes.authorization.GroupCheck.(string) -> kubernetes.authorization.ResourceCheck
serviceAccount
    authorizer_serviceaccount: kubernetes.authorization.Authorizer.(string, string) -> kubernetes.authorization.Authorizer
subresource
    resourcecheck_subresource: kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck
"""  # noqa: E501 - a signature is one line
