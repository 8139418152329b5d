"""The filters of every request: their order, and what an authorizer is asked and may refuse."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from understudy.apiserver.authentication.authenticator import Authenticator
from understudy.apiserver.authentication.loopback import LoopbackTokens
from understudy.apiserver.authentication.service_accounts.account_tokens import AccountTokens
from understudy.apiserver.authentication.tokens import Tokens
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.extensions.serving import Serving
from understudy.apiserver.registry.store import Registry
from understudy.apiserver.server.bootstrap import fill
from understudy.apiserver.server.director import Director
from understudy.apiserver.server.options.config import ServerConfig
from understudy.apiserver.storage.memory import MemoryStore
from understudy.machinery.auth.authorization import Attributes, Decision, SubjectRules
from understudy.machinery.auth.users import AUTHENTICATED, User
from understudy.machinery.options import Query
from understudy.machinery.types import Obj

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Authorizer:
    """Allows what it is told to, and remembers what it was asked."""

    def __init__(self, *allowed: tuple[str, str]) -> None:
        self.allowed = allowed
        self.asked: list[tuple[str, Attributes]] = []

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        self.asked.append((user.name, attributes))
        allowed = (user.name, attributes.verb) in self.allowed
        return Decision(allowed, "" if allowed else "no rule")

    def rules_for(self, user: User, namespace: str) -> SubjectRules:
        return SubjectRules([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}], [], incomplete=True)


class World:
    """A front door whose users are ann (token `a`) and bob (token `b`)."""

    def __init__(self, authorizer: Authorizer, release: str = "1.32") -> None:
        config = ServerConfig(emulated_version=release)
        users = {"a": User("ann", ["dev"]), "b": User("bob", [])}
        registry = Registry(MemoryStore(), config.release)
        tokens = Tokens(AccountTokens(config.clock, config.release.version), registry.lookup, users)
        self.state = ServerState(Serving(config.release), config.gates(), registry, tokens, authorizer)
        self.director = Director(self.state, Authenticator(tokens.user_of, LoopbackTokens()), "http://x")

    async def send(self, method: str, path: str, token: str, body: Any = None, **headers: str) -> Response:
        await fill.fill(self.state, 0)
        head = {"Authorization": f"Bearer {token}", "Accept": "application/json", "Content-Type": "application/json"}
        head |= {name.replace("_", "-"): value for name, value in headers.items()}
        raw = b"" if body is None else orjson.dumps(body)
        answer = await self.director(Request(method, path, head, raw, Query(""), self.state.release.version))
        assert isinstance(answer, Response)
        return answer


async def test_denied_request_is_forbidden() -> None:
    """The 403 names the user, the verb and the resource, as kube-apiserver's does, with the authorizer's reason."""
    world = World(Authorizer())
    answer = await world.send("DELETE", "/apis/apps/v1/namespaces/default/deployments/web", "a")
    status = orjson.loads(answer.body)
    assert (answer.status, status["reason"]) == (403, "Forbidden")
    assert status["message"] == (
        'deployments.apps "web" is forbidden: User "ann" cannot delete resource "deployments" in API group "apps" '
        'in the namespace "default": no rule'
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "/api/v1/nodes/n/status",
            'nodes "n" is forbidden: User "ann" cannot get resource "nodes/status" in API group "" at the cluster scope'
            ": no rule",
        ),
        ("/metrics", 'forbidden: User "ann" cannot get path "/metrics": no rule'),
    ],
)
async def test_pages_and_resources_are_authorized(path: str, message: str) -> None:
    """Pages are asked about by their path, resources by group, resource and name."""
    answer = await World(Authorizer()).send("GET", path, "a")
    assert (answer.status, orjson.loads(answer.body)["message"]) == (403, message)


async def test_authorization_asks_for_the_impersonated_user() -> None:
    """The sender needs leave to impersonate user and groups; what the request asks for, that user needs."""
    authorizer = Authorizer(("ann", "impersonate"), ("jane", "list"))
    headers = {"Impersonate_User": "jane", "Impersonate_Group": "ops"}
    answer = await World(authorizer).send("GET", "/api/v1/nodes", "a", **headers)
    assert answer.status == 200
    assert [(user, a.verb, a.resource, a.name) for user, a in authorizer.asked] == [
        ("ann", "impersonate", "users", "jane"),
        ("ann", "impersonate", "groups", "ops"),
        ("jane", "list", "nodes", ""),
    ]


@pytest.mark.parametrize(
    ("user", "resource", "scope"),
    [
        ("jane", 'users "jane"', "at the cluster scope"),
        ("system:serviceaccount:kube-system:sa", 'serviceaccounts "sa"', 'in the namespace "kube-system"'),
    ],
)
async def test_impersonation_has_to_be_allowed(user: str, resource: str, scope: str) -> None:
    """Without leave to impersonate, nothing is asked about the request itself."""
    authorizer = Authorizer(("bob", "list"))
    answer = await World(authorizer).send("GET", "/api/v1/nodes", "b", Impersonate_User=user)
    assert orjson.loads(answer.body)["message"] == (
        f'{resource} is forbidden: User "bob" cannot impersonate resource "{resource.split()[0]}" '
        f'in API group "" {scope}: no rule'
    )
    assert [attributes.verb for _, attributes in authorizer.asked] == ["impersonate"]


async def test_constrained_impersonation_needs_two_permissions() -> None:
    """A user may be allowed to act as another for some requests only: for the verb of the request, and for the user."""
    headers = {"Impersonate_User": "jane", "Impersonate_Group": "ops"}
    allowed = [("ann", "impersonate-on:user-info:list"), ("ann", "impersonate:user-info"), ("jane", "list")]
    authorizer = Authorizer(*allowed)
    answer = await World(authorizer, "1.36").send("GET", "/api/v1/nodes", "a", **headers)
    assert answer.status == 200
    assert [(user, a.verb, a.group, a.resource, a.name) for user, a in authorizer.asked] == [
        ("ann", "impersonate-on:user-info:list", "", "nodes", ""),
        ("ann", "impersonate:user-info", "authentication.k8s.io", "users", "jane"),
        ("ann", "impersonate:user-info", "authentication.k8s.io", "groups", "ops"),
        ("jane", "list", "", "nodes", ""),
    ]


async def test_constrained_impersonation_falls_back() -> None:
    """Without the narrower permissions `impersonate` decides; a refusal is the first mode's, or the last used's."""
    authorizer = Authorizer(("ann", "impersonate"), ("jane", "list"))
    world = World(authorizer, "1.36")
    assert (await world.send("GET", "/api/v1/nodes", "a", Impersonate_User="jane")).status == 200
    authorizer.allowed = ()
    refused = await world.send("GET", "/api/v1/nodes", "a", Impersonate_User="jane")
    assert 'User "ann" cannot impersonate resource "users" in API group ""' in orjson.loads(refused.body)["message"]
    refused = await world.send("GET", "/api/v1/nodes", "b", Impersonate_User="jane")
    message = orjson.loads(refused.body)["message"]
    assert 'User "bob" cannot impersonate-on:user-info:list resource "nodes" in API group ""' in message


async def test_a_wrong_token_is_refused_before_anything_is_asked() -> None:
    """Authentication comes before authorization."""
    authorizer = Authorizer()
    answer = await World(authorizer).send("GET", "/api/v1/nodes", "wrong")
    assert (answer.status, authorizer.asked) == (401, [])


async def test_access_reviews_ask_the_authorizer() -> None:
    """A review is about the user who sends it, or the one in its spec; the answer has the authorizer's reason."""
    authorizer = Authorizer(("ann", "create"))
    spec: Obj = {
        "resourceAttributes": {"verb": "get", "group": "apps", "resource": "deployments", "namespace": "default"}
    }
    answer = await World(authorizer).send("POST", REVIEWS, "a", {"spec": spec})
    assert orjson.loads(answer.body)["status"] == {"allowed": False, "reason": "no rule"}
    path = REVIEWS.replace("selfs", "s")
    spec = {"user": "eve", "groups": ["ops"], "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}
    await World(authorizer).send("POST", path, "a", {"spec": spec})
    asked = [question for question in authorizer.asked if question[1].verb == "get"]
    assert asked == [
        ("ann", Attributes("", "get", True, "apps", "*", "default", "deployments")),
        ("eve", Attributes("/metrics", "get")),
    ]


async def test_rules_reviews_ask_the_authorizer() -> None:
    """The rules of a user in a namespace are the authorizer's."""
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    answer = await World(Authorizer(("ann", "create"))).send("POST", path, "a", {"spec": {"namespace": "default"}})
    assert orjson.loads(answer.body)["status"] == {
        "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
        "nonResourceRules": [],
        "incomplete": True,
    }


def test_loopback_tokens_are_of_one_process() -> None:
    """A client inside the process is known by its token, beside a token file; to others the token says nothing."""
    tokens = LoopbackTokens()
    headers = {"Authorization": f"Bearer {tokens.issue(User('system:apiserver', ['system:masters']))}"}
    state = World(Authorizer()).state
    user = Authenticator(state.tokens.user_of, tokens).authenticate(headers, [])
    assert (user.name, user.groups) == ("system:apiserver", ["system:masters", AUTHENTICATED])
    with pytest.raises(Exception, match="Unauthorized"):
        Authenticator(state.tokens.user_of, LoopbackTokens()).authenticate(headers, [])
