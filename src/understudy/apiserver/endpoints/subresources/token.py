"""POST serviceaccounts/NAME/token: issue tokens of a service account, which may be bound to an object.

https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/
"""

from __future__ import annotations

import base64

import orjson

from understudy.apiserver.authentication.service_accounts.account_tokens import BOUND
from understudy.apiserver.endpoints.handlers import request_body
from understudy.apiserver.endpoints.handlers.write_request import WriteRequest
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.responsewriters.writers import form_of, value_response
from understudy.apiserver.endpoints.scope import RequestScope
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.endpoints.subresources import webhook_tokens
from understudy.machinery import errors
from understudy.machinery.golang.text import go_quote
from understudy.machinery.options import write_options
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_34, Version
from understudy.machinery.serializer.json_fast import was_sent_empty
from understudy.machinery.types import Obj, default_if_nil, split_api_version
from understudy.machinery.util import clock
from understudy.machinery.validation.field import Errors, Path, invalid

TOKEN_SECONDS = (600, 2**32)  # the shortest and the longest life of a token
AN_HOUR = 60 * 60  # seconds that a token lives unless the request says another time


async def create(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Answer POST serviceaccounts/NAME/token with a token that this server accepts. Raises 400, 404, 406, 409, 422."""
    form_of(request, scope)
    options = write_options(request.query, request.method, request.release)
    write = WriteRequest(state, request, scope, options)
    names_audiences = False

    def read() -> Obj:
        nonlocal names_audiences
        body = request_body.read(request, scope.decoder, options.field_validation)
        sent_spec = body.obj.get("spec") or {}
        names_audiences = sent_spec.get("audiences") is not None or was_sent_empty(sent_spec, "audiences")
        default_if_nil(sent_spec, "expirationSeconds", AN_HOUR)
        body.obj["spec"] = sent_spec
        write.audit_part(body)
        return body.obj

    sent = await write.mutate_new_part(read)
    _check_account_name(sent["metadata"], scope)
    account = (await state.registry.get(scope.kind, scope.namespace, scope.name)).object
    uid = _account_uid(state, request, scope, sent["metadata"], account["metadata"])
    spec = sent.get("spec") or {}
    default_if_nil(spec, "expirationSeconds", AN_HOUR)
    seconds = spec["expirationSeconds"]
    audiences = spec.get("audiences") or list(state.tokens.accounts.audiences)
    if field_errors := _errors(spec, audiences, scope.kind.release):
        raise errors.invalid("authentication.k8s.io", "TokenRequest", "", field_errors, scope.kind.release)
    fields = {"name": scope.name, "namespace": scope.namespace, **uid, "creationTimestamp": state.timestamp()}
    completed = {"metadata": {**sent["metadata"], **fields}, "spec": {**spec, "audiences": audiences}}
    await write.validate({**sent, **completed}, None)
    bound = spec.get("boundObjectRef")
    attested = {"attestations": spec["attestations"]} if spec.get("attestations") else {}
    if webhook_tokens.is_webhook(bound, scope.kind.release):
        context = state.context(request, scope)
        claims = await webhook_tokens.bound_to_webhook(state, context, account["metadata"], spec, audiences)
        seconds = min(seconds, webhook_tokens.LONGEST)
    else:
        claims = {} if bound is None else await _bound(state, scope, bound)
    if bound is not None:
        _check_bound_uid(bound, claims)
    expires = clock.parse_timestamp(state.context(request, scope).now) + seconds
    status = {
        "token": state.tokens.accounts.issue(account["metadata"], audiences, int(expires), claims, attested),
        "expirationTimestamp": clock.timestamp(expires),
    }
    if request.audit is not None:
        request.audit.annotate("authentication.kubernetes.io/issued-credential-id", f"JTI={_jti(status['token'])}")
    fields |= {k: v for k, v in sent["metadata"].items() if k in ("labels", "annotations")}
    answer: Obj = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": fields,
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound, **attested},
        "status": status,
    }
    # An empty list of audiences belongs to who sent it, as a list that is missing does not.
    named_audiences = {"audiences": audiences} if names_audiences else {}
    as_sent = {
        **answer,
        "metadata": {},
        "spec": {**spec, **named_audiences, "expirationSeconds": seconds},
        "status": {},
    }
    write.update_managed_fields(None, as_sent)
    answer["metadata"] |= as_sent["metadata"]
    return value_response(request, scope, answer, 201)


def _jti(token: str) -> str:
    """Return the id of a token that was issued (RFC 7519)."""
    payload = token.split(".")[1]
    return str(orjson.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["jti"])


def _errors(spec: Obj, audiences: list[str], release: Version) -> Errors:
    """Find errors in a request for a token (`ValidateTokenRequest`)."""
    if misplaced := webhook_tokens.misplaced_attestations(spec, release):
        return misplaced
    return _life_errors(spec["expirationSeconds"]) + webhook_tokens.validate(spec, audiences, release)


def _life_errors(seconds: int) -> Errors:
    """Find errors in the life of a token, in seconds."""
    path = Path("spec", "expirationSeconds")
    if seconds < TOKEN_SECONDS[0]:
        return [invalid(path, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > TOKEN_SECONDS[1]:
        return [invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


def _check_account_name(sent: Obj, scope: RequestScope) -> None:
    """Raise 422 if the request names another service account than the path."""
    if sent.get("name", scope.name) != scope.name:
        error = invalid(Path("metadata", "name"), sent["name"], "must match the service account name if specified")
        raise errors.invalid("authentication.k8s.io", "TokenRequest", scope.name, [error], scope.kind.release)


def _account_uid(state: ServerState, request: Request, scope: RequestScope, sent: Obj, account: Obj) -> Obj:
    """Return the uid as a field of the answer's metadata, which has it from 1.34 on.

    Raises 409 if the request names another one; without TokenRequestServiceAccountUIDValidation that is a warning.
    """
    if state.release.version < V1_34:
        return {}
    uid = sent.get("uid") or account["uid"]
    if uid != account["uid"]:
        why = f"the UID in the token request ({uid}) does not match the UID of the service account ({account['uid']})"
        if state.gates[features.TOKEN_REQUEST_SERVICE_ACCOUNT_UID_VALIDATION]:
            raise errors.conflict("authentication.k8s.io", "TokenRequest", scope.name, why)
        request.warnings.append(
            f"{why} but TokenRequestServiceAccountUIDValidation is not enabled. In the future, "
            "this will return a conflict error"
        )
    return {"uid": uid}


async def _bound(state: ServerState, scope: RequestScope, bound: Obj) -> dict[str, Obj]:
    """Return the metadata of the objects that a token is bound to, by claim: a pod and its node, a secret or a node.

    Raises 400, 404.
    """
    name, (group, version) = bound.get("name", ""), _group_version(bound)
    kind = None if group else state.release.kind("", bound.get("kind", ""))
    if kind is None or kind.singular not in BOUND:
        gvk = f"{group}/{version}, Kind={bound.get('kind', '')}"
        raise errors.bad_request(f"cannot bind token to object of type {gvk}")
    obj = (await state.registry.get(kind, scope.namespace if kind.namespaced else "", name)).object
    claims = {kind.singular: obj["metadata"]}
    return claims | _node_of(state, scope, obj) if kind.name == "Pod" else claims


def _group_version(bound: Obj) -> tuple[str, str]:
    """Return the group and the version that a reference names, none if there is no such apiVersion. Upstream:
    `schema.FromAPIVersionAndKind`."""
    api_version = bound.get("apiVersion", "")
    return split_api_version(api_version) if api_version.count("/") <= 1 else ("", "")


def _check_bound_uid(bound: Obj, claims: dict[str, Obj]) -> None:
    """Raise 409 if a reference has another uid than its object."""
    uid = bound.get("uid")
    if uid and uid != claims[bound["kind"].lower()]["uid"]:
        group, _ = _group_version(bound)
        message = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict(group, bound["kind"], bound.get("name", ""), message)


def _node_of(state: ServerState, scope: RequestScope, pod: Obj) -> dict[str, Obj]:
    """Return the claim of a pod's node. Raises 400 for a pod of another account."""
    if pod["spec"].get("serviceAccountName", "") != scope.name:
        why = f"serviceaccount {go_quote(scope.name)} to pod running with different serviceaccount name."
        raise errors.bad_request(f"cannot bind token for {why}")
    name = pod["spec"].get("nodeName")
    node = state.registry.lookup("", "nodes", "", name) if name else None
    return {"node": node["metadata"] if node else {"name": name}} if name else {}
