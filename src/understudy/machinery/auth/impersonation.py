"""The headers with which a user of a kubeconfig acts as another one.

Upstream: `impersonatingRoundTripper` of k8s.io/client-go/transport.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from understudy.machinery.types import Obj

Headers = Sequence[tuple[str, str]]
OTHERS = ("as-uid", "as-groups", "as-user-extra")  # fields that say more about the user of `as`
_TOKEN = "!#$&'*+^`|"  # characters of a header's name besides letters, digits and those that are never quoted


def impersonation_headers(user: Obj) -> Headers:
    """Return the headers for the user whom an entry of a kubeconfig names in `as`, none without one."""
    if not user.get("as"):
        return ()
    named = [("Impersonate-User", user["as"])]
    if uid := user.get("as-uid"):
        named.append(("Impersonate-Uid", uid))
    groups = [("Impersonate-Group", group) for group in user.get("as-groups") or ()]
    extra = [
        (f"Impersonate-Extra-{quote(key, safe=_TOKEN)}", value)
        for key, values in (user.get("as-user-extra") or {}).items()
        for value in values
    ]
    return (*named, *groups, *extra)
