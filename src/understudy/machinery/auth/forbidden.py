"""The 403 for what a user may not do."""

from __future__ import annotations

from understudy.machinery import errors
from understudy.machinery.auth.authorization import Attributes
from understudy.machinery.auth.users import User
from understudy.machinery.errors import StatusError
from understudy.machinery.golang.text import go_quote


def forbidden(user: User, attributes: Attributes, reason: str) -> StatusError:
    """Return the 403 for something that a user may not do. Upstream: `responsewriters.Forbidden`."""
    message = f"User {go_quote(user.name)} cannot {attributes.verb} {_object(attributes)}"
    for character, escape in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        message = message.replace(character, escape)
    text = f"{message}: {reason}" if reason else message
    return errors.forbidden(attributes.group, attributes.resource, attributes.name, text).by("authorization")


def _object(attributes: Attributes) -> str:
    if not attributes.is_resource:
        return f"path {go_quote(attributes.path)}"
    resource = f"{attributes.resource}/{attributes.subresource}" if attributes.subresource else attributes.resource
    place = f"in the namespace {go_quote(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
    return f"resource {go_quote(resource)} in API group {go_quote(attributes.group)} {place}"
