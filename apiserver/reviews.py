"""Kinds that are asked and not stored: access and token reviews, and component statuses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from understudy.apiserver import bodies, components, errors, metadata
from understudy.apiserver.accounttokens import ISSUER, TokenError
from understudy.apiserver.api import Api, Target
from understudy.apiserver.authentication import AUTHENTICATED
from understudy.apiserver.call import Call, Reply
from understudy.apiserver.options import write_options
from understudy.apiserver.rendering import value_reply
from understudy.apiserver.subresources import assign
from understudy.apiserver.types import Obj
from understudy.apiserver.writes import Writer

Handler = Callable[[Api, Call, Target], Awaitable[Reply]]
INVALID_TOKEN = "invalid bearer token"


def _review(answer: Callable[[Api, Call, Obj], Any]) -> Handler:
    """A POST that fills in a status."""

    async def handle(api: Api, call: Call, target: Target) -> Reply:
        options = write_options(call)
        obj = bodies.read_object(call, api.schemas, target.kind, target.version, options.field_validation)
        Writer(api, call, target, options).own(None, obj)
        fields = {**obj["metadata"], "creationTimestamp": None}
        if target.kind.name == "SelfSubjectReview":
            fields["creationTimestamp"] = metadata.timestamp()
        return value_reply(call, target, {**obj, "metadata": fields, "status": answer(api, call, obj)}, 201)

    return handle


def _allowed(api: Api, call: Call, obj: Obj) -> Obj:
    return {"allowed": api.authorization == "AlwaysAllow"}


def _rules(api: Api, call: Call, obj: Obj) -> Obj:
    every = {"verbs": ["*"]}
    return {
        "resourceRules": [{**every, "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{**every, "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }


def _token(api: Api, call: Call, obj: Obj) -> Obj:
    """Whose a token is: one of --token-auth-file's, or a service account's."""
    token = obj["spec"].get("token")
    if not token:
        raise errors.bad_request("token is required for TokenReview in authentication")
    try:
        user, audiences = api.user_of(token, obj["spec"].get("audiences") or (ISSUER,))
    except TokenError as why:
        return {"user": {}, "error": f"[{INVALID_TOKEN}, {why}]" if str(why) else INVALID_TOKEN}
    info = {**user.info(), "groups": [*user.groups, AUTHENTICATED]}
    return {"authenticated": True, "user": info, "audiences": audiences}


def _self(api: Api, call: Call, obj: Obj) -> Obj:
    assert call.user is not None
    return {"userInfo": call.user.info()}


async def bind(api: Api, call: Call, target: Target) -> Reply:
    """POST bindings: the pod that the body names."""
    options = write_options(call)
    binding = bodies.read_object(call, api.schemas, target.kind, target.version, options.field_validation)
    return await assign(api, call, target, binding, options)


HANDLERS: dict[str, dict[str, Handler]] = {
    "selfsubjectaccessreviews": {"create": _review(_allowed)},
    "localsubjectaccessreviews": {"create": _review(_allowed)},
    "subjectaccessreviews": {"create": _review(_allowed)},
    "selfsubjectrulesreviews": {"create": _review(_rules)},
    "selfsubjectreviews": {"create": _review(_self)},
    "bindings": {"create": bind},
    "tokenreviews": {"create": _review(_token)},
    "componentstatuses": {"get": components.get, "list": components.list_, "watch": components.watch},
}
