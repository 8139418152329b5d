"""Kinds that answer a question and are not stored: access and token reviews, component statuses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from understudy.apiserver.authentication.authenticator import NOBODY, completed
from understudy.apiserver.authentication.bearer_token import header_token
from understudy.apiserver.authentication.errors import TokenError
from understudy.apiserver.endpoints.handlers import component_status, request_body
from understudy.apiserver.endpoints.handlers.write_request import WriteRequest
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.responsewriters.writers import form_of, value_response
from understudy.apiserver.endpoints.scope import RequestScope
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.rest import wipe_object_meta_system_fields
from understudy.kinds import authorization
from understudy.machinery import errors
from understudy.machinery.auth.authorization import Attributes, field_terms, label_requirements
from understudy.machinery.auth.users import User
from understudy.machinery.options import write_options
from understudy.machinery.releases import features
from understudy.machinery.selectors.fields import FieldTerm
from understudy.machinery.selectors.labels import OPERATORS_OF_OBJECTS, Requirement
from understudy.machinery.types import Obj

Handler = Callable[[ServerState, Request, RequestScope], Awaitable[Response]]
INVALID_TOKEN = "invalid bearer token"


def _review(answer: Callable[[ServerState, Request, RequestScope, Obj], Obj], *, keeps: bool = True) -> Handler:
    """Return the handler of a review, whose status `answer` fills in.

    keeps  whether the response has the fields that were sent, too
    """

    async def handle(state: ServerState, request: Request, scope: RequestScope) -> Response:
        form_of(request, scope)
        options = write_options(request.query, request.method, request.release)
        write = WriteRequest(state, request, scope, options)

        def read() -> Obj:
            obj = request_body.read_object(request, scope.codec, options.field_validation)
            write.audit(obj)
            wipe_object_meta_system_fields(obj, state.schemas.uncreated_metadata)
            return obj

        obj = await write.admit_new_part(read)
        answered = answer(state, request, scope, obj)  # may drop fields that were sent
        kept = obj if keeps else {}
        named = {"kind": scope.kind.name, "apiVersion": scope.api_version}
        return value_response(request, scope, {**named, **kept, **answered}, 201)

    return handle


def _allowed(state: ServerState, request: Request, scope: RequestScope, review: Obj) -> Obj:
    """Answer an access review. Raises 422."""
    if not state.gates[features.AUTHORIZE_WITH_SELECTORS]:
        authorization.drop_selectors(review)
    if field_errors := authorization.validate(review, scope.kind.name):
        raise errors.invalid(scope.kind.group, "", "", field_errors, scope.kind.release)
    spec = review["spec"]
    user = request.user if scope.kind.name == authorization.SELF else _user(spec)
    decision = state.authorizer.authorize(user, _attributes(spec))
    ignored = authorization.evaluation_error(review, state.release.version)
    others = {
        "denied": decision.denied,
        "reason": decision.reason,
        "evaluationError": "; ".join(filter(None, (decision.error, ignored))),
    }
    return {"status": {"allowed": decision.allowed, **{name: value for name, value in others.items() if value}}}


def _user(spec: Obj) -> User:
    """Return the user that an access review asks about."""
    return User(spec.get("user") or "", spec.get("groups") or [], spec.get("uid") or "", spec.get("extra") or {})


def _attributes(spec: Obj) -> Attributes:
    """Return the attributes that an access review asks about. Upstream: `AuthorizationAttributesFrom`."""
    if (path := spec.get(authorization.PATH)) is not None:
        return Attributes(path.get("path") or "", path.get("verb") or "")
    resource = spec[authorization.RESOURCE]
    fields = {name: resource.get(name) or "" for name in _FIELDS}
    fields["version"] = fields["version"] or "*"
    terms = _field_terms(resource.get("fieldSelector") or {})
    labels = _label_requirements(resource.get("labelSelector") or {})
    return Attributes("", is_resource=True, **fields, field_selector=terms, label_selector=labels)


def _field_terms(selector: Obj) -> tuple[FieldTerm, ...]:
    """Return the requirements that are understood of a review's field selector."""
    if requirements := selector.get("requirements"):
        understood = filter(authorization.is_one_value, requirements)
        return tuple(FieldTerm(item["key"], item["values"][0], item["operator"] == "In") for item in understood)
    return field_terms(selector.get("rawSelector") or "")


def _label_requirements(selector: Obj) -> tuple[Requirement, ...]:
    """Return the requirements that are understood of a review's label selector."""
    if requirements := selector.get("requirements"):
        understood = [item for item in requirements if item["operator"] in OPERATORS_OF_OBJECTS]
        return tuple(
            Requirement(item["key"], OPERATORS_OF_OBJECTS[item["operator"]], frozenset(item.get("values") or ()))
            for item in understood
        )
    return label_requirements(selector.get("rawSelector") or "")


_FIELDS = ("verb", "group", "version", "namespace", "resource", "subresource", "name")


def _rules(state: ServerState, request: Request, scope: RequestScope, review: Obj) -> Obj:
    """Answer a SelfSubjectRulesReview. Raises 400."""
    if not (review.get("spec") or {}).get("namespace"):
        raise errors.bad_request("no namespace on request")
    rules = state.authorizer.rules_for(request.user, review["spec"]["namespace"])
    status = {
        "resourceRules": rules.resource_rules,
        "nonResourceRules": rules.non_resource_rules,
        "incomplete": rules.incomplete,
        **({"evaluationError": rules.evaluation_error} if rules.evaluation_error else {}),
    }
    return {"metadata": state.schemas.uncreated_metadata, "spec": {}, "status": status}


def _token(state: ServerState, request: Request, scope: RequestScope, review: Obj) -> Obj:
    """Answer a TokenReview: the user of a bearer token. Raises 400.

    Fields of the status that a client has sent stay, unless they are answered.
    """
    text = review["spec"].get("token")
    if not text:
        raise errors.bad_request("token is required for TokenReview in authentication")
    sent = {name: value for name, value in (review.get("status") or {}).items() if name != "authenticated"}
    audiences = review["spec"].get("audiences") or state.tokens.accounts.audiences
    token = header_token(f"Bearer {text}", [])
    if not token and state.anonymous:  # begins with a space: the header would have no token
        return {"status": {**sent, "authenticated": True, "user": NOBODY.info(), "audiences": audiences}}
    try:
        user, audiences = state.decide(partial(state.tokens.user_of, token, audiences))
    except TokenError as error:
        reason = f"[{INVALID_TOKEN}, {error}]" if str(error) else INVALID_TOKEN
        return {"status": {"user": {}, **sent, **({"error": reason} if token else {})}}
    return {"status": {**sent, "authenticated": True, "user": completed(user).info(), "audiences": audiences}}


def _self(state: ServerState, request: Request, scope: RequestScope, review: Obj) -> Obj:
    """Answer a SelfSubjectReview: the user of the request."""
    return {"metadata": {"creationTimestamp": state.timestamp()}, "status": {"userInfo": request.user.info()}}


HANDLERS: dict[str, dict[str, Handler]] = {
    "selfsubjectaccessreviews": {"create": _review(_allowed)},
    "localsubjectaccessreviews": {"create": _review(_allowed)},
    "subjectaccessreviews": {"create": _review(_allowed)},
    "selfsubjectrulesreviews": {"create": _review(_rules, keeps=False)},
    "selfsubjectreviews": {"create": _review(_self, keeps=False)},
    "tokenreviews": {"create": _review(_token)},
    "componentstatuses": {"get": component_status.get, "list": component_status.list_, "watch": component_status.watch},
}
