"""The flows of `compare audit`: requests of every kind, one after the other, of which both servers log the events.

{{ns}} is the namespace of the run, which is also a prefix of names outside of it; {{hook}} and {{ca}} are the address
and the certificate of the webhooks, {{token}} the token of a service account that may do nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from scripts.common.comparing import MEDIA, Obj
from scripts.compare.cases.webhook_server import Answer

NS, PODS = "/api/v1/namespaces/{{ns}}", "/api/v1/namespaces/{{ns}}/pods"
APPS, POLICY = "/apis/apps/v1/namespaces/{{ns}}", "/apis/admissionregistration.k8s.io/v1"
MAPS = f"{NS}/configmaps"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
ACCOUNT = "{{token}}"  # of a service account
PRIVILEGED = {"hostNetwork": True, "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}
PLAIN = {"containers": [{"name": "c", "image": "i"}]}


class Ask(NamedTuple):
    """A request. `token` is "" for the administrator's, None for none; `times` how often it is sent."""

    method: str
    path: str
    body: Any = None  # JSON values, or a text
    media: str = "application/json"
    headers: Mapping[str, str] = MappingProxyType({})
    token: str | None = ""


class Settle(NamedTuple):
    """A request that is sent until the server refuses it, since what it has just stored is in force then."""

    ask: Ask


Step = Ask | Settle
Flow = Callable[[], Iterator[Step]]


def config_map(name: str, **fields: Any) -> Obj:
    """Return a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "<&>"}, **fields}


def labeled(name: str, **labels: str) -> Obj:
    """Return a ConfigMap with labels."""
    return config_map(name, metadata={"name": name, "labels": labels})


def pod(name: str, spec: Obj, **labels: str) -> Obj:
    """Return a pod."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def deployment(name: str, spec: Obj) -> Obj:
    """Return a deployment of no pods."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    fields = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": fields}


def writes() -> Iterator[Step]:
    """Create, read, change and delete objects, in all formats, and fail to."""
    yield Ask("POST", MAPS, config_map("a"))
    yield Ask("POST", MAPS, config_map("a"))
    yield Ask("POST", MAPS, config_map("metadata"))
    yield Ask("GET", f"{MAPS}/metadata")
    yield Ask("GET", f"{MAPS}/a")
    yield Ask("GET", f"{MAPS}/none")
    for accept in (
        TABLE["Accept"],
        "application/vnd.kubernetes.protobuf",
        "application/yaml",
        "application/cbor",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "text/plain",
    ):
        yield Ask("GET", f"{MAPS}/a", headers={"Accept": accept})
        yield Ask("GET", f"{MAPS}?labelSelector=a%3Db&limit=1", headers={"Accept": accept})
        yield Ask("GET", f"{MAPS}/none", headers={"Accept": accept})
        yield Ask("GET", MAPS, headers={"Accept": accept}, token="wrong")
    yield Ask("PUT", f"{MAPS}/a", config_map("a", data={"k": "w"}))
    yield Ask("PUT", f"{MAPS}/a", config_map("a", metadata={"name": "a", "resourceVersion": "1"}))
    yield Ask("PUT", f"{MAPS}/a", config_map("b"))
    yield Ask("PUT", f"{MAPS}/none", config_map("none"))
    yield Ask("PATCH", f"{MAPS}/a", {"data": {"z": "y"}}, MEDIA["merge"])
    yield Ask("PATCH", f"{MAPS}/a", {"data": {"y": "<&>"}}, MEDIA["strategic"])
    yield Ask("PATCH", f"{MAPS}/a", [{"op": "remove", "path": "/data/z"}], MEDIA["json"])
    yield Ask("PATCH", f"{MAPS}/a", [{"op": "remove", "path": "/data/none"}], MEDIA["json"])
    yield Ask("PATCH", f"{MAPS}/a", "[1", MEDIA["json"])
    yield Ask("PATCH", f"{MAPS}/a", {}, "application/nonsense")
    yield Ask("PATCH", f"{MAPS}/b?fieldManager=me", "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n", MEDIA["apply"])
    yield Ask("PATCH", f"{MAPS}/b?fieldManager=you", config_map("b", data={"a": "c"}), MEDIA["apply"])
    yield Ask("PATCH", f"{MAPS}/b", config_map("b"), MEDIA["apply"])
    yield Ask("PATCH", f"{MAPS}/none", {"data": {"z": "y"}}, MEDIA["merge"])
    yield Ask("DELETE", f"{MAPS}/a", {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})
    yield Ask("DELETE", f"{MAPS}/a", {"propagationPolicy": "Orphan"})
    yield Ask("DELETE", f"{MAPS}/b?gracePeriodSeconds=0&dryRun=All")
    yield Ask("DELETE", f"{MAPS}/b", {"preconditions": {"uid": "u"}})
    yield Ask("DELETE", MAPS + "?labelSelector=x%3Dy", {"kind": "DeleteOptions", "apiVersion": "v1"})
    yield Ask("DELETE", MAPS + "?fieldSelector=metadata.name%3Db")


def invalid() -> Iterator[Step]:
    """Send what is wrong, or only a dry run."""
    yield Ask("POST", f"{MAPS}?dryRun=All", config_map("", metadata={"generateName": "gen-"}))
    yield Ask("POST", f"{MAPS}?dryRun=Some", config_map("dry"))
    yield Ask("PATCH", f"{MAPS}/dry?dryRun=All&fieldManager=m", config_map("dry"), MEDIA["apply"])
    yield Ask("POST", MAPS, config_map("A"))
    yield Ask("POST", MAPS, config_map("elsewhere", metadata={"name": "e", "namespace": "elsewhere"}))
    yield Ask("POST", f"{MAPS}?fieldValidation=Strict", config_map("s", dato={}))
    yield Ask("POST", f"{MAPS}?fieldValidation=Warn", config_map("w", dato={}))
    yield Ask("POST", MAPS, "{nonsense")
    yield Ask("POST", MAPS, "")
    yield Ask("POST", MAPS, json.dumps(config_map("y")), "application/yaml")
    yield Ask("POST", MAPS, config_map("n"), "application/nonsense")
    yield Ask("POST", MAPS, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})
    yield Ask("POST", "/api/v1/namespaces/none/configmaps", config_map("a"))
    yield Ask("POST", f"{NS}/secrets", {"metadata": {"name": "s"}, "stringData": {"p": "w"}})
    yield Ask("GET", f"{NS}/secrets/s")
    yield Ask("PATCH", f"{NS}/secrets/s", {"type": "x"}, MEDIA["merge"])
    yield Ask("POST", f"{NS}/limitranges", {"metadata": {"name": "l"}})
    yield Ask("GET", f"{NS}/limitranges/l")
    yield Ask("POST", "/api/v1/namespaces/kube-system/configmaps?dryRun=All", config_map("k"))
    yield Ask("PUT", MAPS, config_map("a"))
    yield Ask("POST", f"{MAPS}/a", config_map("a"))
    yield Ask("DELETE", "/api/v1/namespaces")
    yield Ask("GET", f"{MAPS}?limit=x")
    yield Ask("GET", f"{MAPS}?resourceVersion=x")
    yield Ask("GET", f"{MAPS}?continue=x")
    yield Ask("GET", f"{MAPS}?fieldSelector=nonsense%3Da")
    yield Ask("OPTIONS", f"{MAPS}/a")
    yield Ask("HEAD", f"{MAPS}/a")


def subresources() -> Iterator[Step]:
    """Ask subresources, those that are connected to included."""
    yield Ask("POST", PODS, pod("p", PLAIN))
    yield Ask("PATCH", f"{PODS}/p/status", {"status": {"phase": "Running"}}, MEDIA["strategic"])
    yield Ask("GET", f"{PODS}/p/status")
    yield Ask("PATCH", f"{PODS}/p/ephemeralcontainers", {"spec": {"ephemeralContainers": [{}]}}, MEDIA["merge"])
    yield Ask("GET", f"{PODS}/p/ephemeralcontainers")
    for name in ("exec?command=ls", "attach?container=c", "portforward?ports=80", "log", "log?follow=true&container=x"):
        yield Ask("GET", f"{PODS}/p/{name}", token=ACCOUNT)
        yield Ask("GET", f"{PODS}/none/{name}")
    yield Ask("POST", f"{PODS}/p/exec?command=ls")
    yield Ask("GET", f"{PODS}/p/log")
    yield Ask("POST", f"{PODS}/p/exec", token=ACCOUNT)
    yield Ask("GET", f"{PODS}/none/proxy/x/y?z=1")
    yield Ask("PATCH", f"{PODS}/p/proxy", token=ACCOUNT)
    yield Ask("POST", f"{PODS}/p/binding", {"target": {"kind": "Node", "name": "n"}})
    yield Ask("POST", f"{PODS}/p/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}})
    yield Ask("GET", f"{PODS}?watch=true&timeoutSeconds=1&resourceVersion=0")
    yield Ask("GET", f"{PODS}?watch=true&timeoutSeconds=1&resourceVersion=0", headers=TABLE)
    yield Ask("GET", f"{PODS}?watch=true&resourceVersion=x")
    yield Ask("GET", "/api/v1/watch/namespaces/{{ns}}/pods/p?timeoutSeconds=1")
    yield Ask("GET", f"{PODS}?watch=true", token=ACCOUNT)
    yield Ask("DELETE", f"{PODS}/p?gracePeriodSeconds=0")
    yield Ask(
        "POST", f"{NS}/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "clusterIP": "None"}}
    )
    yield Ask("GET", f"{NS}/services/s/proxy/", token=ACCOUNT)
    yield Ask("GET", f"{NS}/services/none/proxy/x")
    yield Ask("GET", "/api/v1/nodes/none/proxy/metrics")
    yield Ask("PATCH", f"{NS}/services/s/status", {"metadata": {"labels": {"a": "b"}}}, MEDIA["merge"])
    yield Ask("POST", f"{APPS}/deployments", deployment("d", PLAIN))
    yield Ask("GET", f"{APPS}/deployments/d/scale")
    yield Ask("PATCH", f"{APPS}/deployments/d/scale", {"spec": {"replicas": 0}}, MEDIA["merge"])
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 0}}
    yield Ask("PUT", f"{APPS}/deployments/d/scale", scale)
    yield Ask("GET", f"{APPS}/deployments", headers=TABLE)
    yield Ask("GET", f"{APPS}/deployments")
    yield Ask("DELETE", f"{APPS}/deployments/d")
    yield Ask("POST", f"{NS}/serviceaccounts", {"metadata": {"name": "other"}})
    token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    yield Ask("POST", f"{NS}/serviceaccounts/other/token", token)
    yield Ask("POST", f"{NS}/serviceaccounts/none/token", token)
    yield Ask("POST", "/api/v1/namespaces", {"metadata": {"name": "{{ns}}-f"}})
    yield Ask("DELETE", "/api/v1/namespaces/{{ns}}-f")
    finalized = {"metadata": {"name": "{{ns}}-f"}, "spec": {"finalizers": []}}
    yield Ask("PUT", "/api/v1/namespaces/{{ns}}-f/finalize", finalized)


def people() -> Iterator[Step]:
    """Ask as others, as nobody, and with wrong credentials."""
    for ask in (Ask("GET", MAPS), Ask("GET", "/"), Ask("POST", MAPS, config_map("x")), Ask("GET", f"{MAPS}?watch=1")):
        yield ask._replace(token=ACCOUNT)
        yield ask._replace(token="wrong")
        yield ask._replace(token=None)
    yield Ask("GET", MAPS, token=None, headers={"Authorization": "Basic YTpi"})
    yield Ask("GET", MAPS, token=None, headers={"Authorization": "Nonsense x"})
    yield Ask("GET", f"{PODS}/p/exec?command=ls", token="wrong")
    yield Ask("GET", "/livez", token="wrong")
    bob = {"Impersonate-User": "bob"}
    yield Ask("GET", MAPS, headers=bob)
    yield Ask("GET", MAPS, headers=bob, token=ACCOUNT)
    yield Ask("GET", MAPS, headers=bob, token="wrong")
    yield Ask("GET", MAPS, headers={**bob, "Impersonate-Group": "system:masters"})
    yield Ask("GET", MAPS, headers={**bob, "Impersonate-Uid": "u", "Impersonate-Extra-Scopes": "s"})
    yield Ask("GET", MAPS, headers={"Impersonate-Group": "audited"})
    yield Ask("GET", MAPS, headers={"Impersonate-User": "system:serviceaccount:{{ns}}:nobody"})
    yield Ask("GET", f"{MAPS}/a", headers={"X-Forwarded-For": "1.2.3.4, 5.6.7.8", "X-Real-Ip": "9.9.9.9"})
    yield Ask("GET", f"{MAPS}/a", headers={"User-Agent": "x" * 1100})
    review = {"nonResourceAttributes": {"path": "/", "verb": "get"}}
    name = "/apis/authorization.k8s.io/v1/{}s"
    yield Ask("POST", name.format("selfsubjectaccessreview"), {"spec": review}, token=ACCOUNT)
    yield Ask("POST", name.format("subjectaccessreview"), {"spec": {**review, "user": "bob"}})
    yield Ask("POST", name.format("selfsubjectrulesreview"), {"spec": {"namespace": "{{ns}}"}}, token=ACCOUNT)
    yield Ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, token=ACCOUNT)
    yield Ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": ACCOUNT}})


def pages() -> Iterator[Step]:
    """Ask what is no resource, what is not there, and what is deprecated."""
    for path in (
        "/version",
        "/healthz",
        "/healthz/ping",
        "/livez",
        "/readyz",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps",
    ):
        yield Ask("GET", path)
    for path in (
        "/apis/apps",
        "/apis/apps/v1",
        "/apis/nope",
        "/apis/nope/v1/things",
        "/nowhere",
        "/openid/v1/jwks",
        "/api/v2",
        "/",
    ):
        yield Ask("GET", path)
    yield Ask("GET", "/metrics", token=ACCOUNT)
    yield Ask("GET", "/healthz", token=None)
    yield Ask("POST", "/healthz")
    yield Ask("GET", "/api", headers={"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"})
    yield Ask("GET", "/openapi/v3", token=ACCOUNT)
    yield Ask("GET", "/api/v1/componentstatuses/none")
    for group, resource in (
        ("", "endpoints"),
        ("resource.k8s.io/v1beta1", "resourceslices"),
        ("resource.k8s.io/v1beta2", "deviceclasses"),
        ("resource.k8s.io/v1alpha3", "devicetaintrules"),
        ("flowcontrol.apiserver.k8s.io/v1beta3", "flowschemas/exempt"),
        ("admissionregistration.k8s.io/v1beta1", "validatingadmissionpolicies"),
        ("admissionregistration.k8s.io/v1beta1", "mutatingadmissionpolicies"),
        ("networking.k8s.io/v1beta1", "ipaddresses/none"),
        ("certificates.k8s.io/v1beta1", "clustertrustbundles"),
    ):
        yield Ask("GET", f"/apis/{group}/{resource}" if group else f"{NS}/{resource}")


def pod_security() -> Iterator[Step]:
    """Create pods and what makes them in namespaces of several levels."""
    modes = ("enforce", "audit", "warn", "enforce-version")
    for name, levels in (
        ("restricted", ("baseline", "restricted", "privileged", "latest")),
        ("pinned", ("restricted", "baseline", "baseline", "v1.24")),
        ("wrong", ("nonsense", "nonsense", "privileged", "v1.x")),
    ):
        space = f"{{{{ns}}}}-{name}"
        labels = {f"pod-security.kubernetes.io/{mode}": level for mode, level in zip(modes, levels, strict=True)}
        yield Ask("POST", "/api/v1/namespaces", {"metadata": {"name": space}})
        yield Ask("POST", f"/api/v1/namespaces/{space}/pods", pod("before", PRIVILEGED))
        yield Ask("PATCH", f"/api/v1/namespaces/{space}", {"metadata": {"labels": labels}}, MEDIA["merge"])
        for which, spec in (("plain", PLAIN), ("privileged", PRIVILEGED)):
            yield Ask("POST", f"/api/v1/namespaces/{space}/pods", pod(which, spec))
            yield Ask("POST", f"/apis/apps/v1/namespaces/{space}/deployments", deployment(which, spec))
        patch = {"spec": {"template": {"spec": {"hostPID": True}}}}
        yield Ask("PATCH", f"/apis/apps/v1/namespaces/{space}/deployments/plain", patch, MEDIA["strategic"])
        yield Ask(
            "PATCH", f"/api/v1/namespaces/{space}/pods/plain", {"metadata": {"labels": {"a": "b"}}}, MEDIA["merge"]
        )
    yield Ask("POST", PODS, pod("exempt", PRIVILEGED))


def policy(name: str, expressions: list[str], actions: list[str], **spec: Any) -> Iterator[Ask]:
    """Store a policy about ConfigMaps with a label, and its binding; `spec` may replace fields."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
    selector = {"matchLabels": {"policy": name}}
    checks = [{"expression": text, "message": f"not {text}"} for text in expressions]
    fields = {"matchConstraints": {"resourceRules": [rule], "objectSelector": selector}, "validations": checks, **spec}
    named = f"{{{{ns}}}}-{name}"
    yield Ask("POST", f"{POLICY}/validatingadmissionpolicies", {"metadata": {"name": named}, "spec": fields})
    reference = {"paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"}} if "paramKind" in spec else {}
    for number in range(1, 3 if "paramKind" in spec else 2):
        bound = {"policyName": named, "validationActions": actions, **reference}
        name = f"{named}-{number}"
        yield Ask("POST", f"{POLICY}/validatingadmissionpolicybindings", {"metadata": {"name": name}, "spec": bound})


def mutating_policies() -> Iterator[Ask]:
    """Store policies that change ConfigMaps with a label, and fail to; before 1.36 there are none."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    changes = 'Object{data: {"mutated": "yes"}}', 'Object{data: {"mutated": string(object.data.none)}}'
    for name, expression, failure in (
        ("mutates", changes[0], "Fail"),
        ("breaks", changes[1], "Fail"),
        ("ignored", changes[1], "Ignore"),
    ):
        named, selector = f"{{{{ns}}}}-{name}", {"matchLabels": {"policy": name}}
        patch = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
        spec = {
            "matchConstraints": {"resourceRules": [rule], "objectSelector": selector},
            "reinvocationPolicy": "Never",
            "failurePolicy": failure,
            "mutations": [patch],
        }
        yield Ask("POST", f"{POLICY}/mutatingadmissionpolicies", {"metadata": {"name": named}, "spec": spec})
        bound = {"metadata": {"name": named}, "spec": {"policyName": named}}
        yield Ask("POST", f"{POLICY}/mutatingadmissionpolicybindings", bound)


def policies() -> Iterator[Step]:
    """Meet policies that audit, warn, deny and fail, and that annotate."""
    keys = ("object.metadata.name", "null", "'  '", "'x'.matches('x') ? ' <&> ' : ''")
    notes = [{"key": f"k{number}", "valueExpression": text} for number, text in enumerate(keys)]
    yield from policy(
        "audits", ["object.data.k == 'good'", "1 == 2", "true"], ["Audit", "Warn"], auditAnnotations=notes
    )
    yield from policy("denies", ["object.data.k == 'good'"], ["Deny", "Audit"], auditAnnotations=notes[:1])
    yield from policy("fails", ["object.data.none == 'x'"], ["Audit"])
    yield from policy("ignores", ["object.data.none == 'x'"], ["Audit", "Deny"], failurePolicy="Ignore")
    wrong = [{"key": "wrong", "valueExpression": "object.data.none"}]
    yield from policy("wrong", [], ["Audit"], auditAnnotations=wrong)
    kind, notes = (
        {"apiVersion": "v1", "kind": "LimitRange"},
        [{"key": "param", "valueExpression": "params.metadata.name"}],
    )
    yield from policy("params", ["params == null"], ["Audit"], paramKind=kind, auditAnnotations=notes)
    yield from mutating_policies()
    yield from policy("last", ["false"], ["Deny"])
    yield Settle(Ask("POST", f"{MAPS}?dryRun=All", labeled("settle", policy="last")))
    for name in ("audits", "denies", "fails", "ignores", "wrong", "params", "mutates", "breaks", "ignored"):
        yield Ask("POST", MAPS, labeled(f"pol-{name}", policy=name))
        yield Ask("POST", f"{MAPS}?dryRun=All", labeled(f"dry-{name}", policy=name))
        yield Ask("DELETE", f"{MAPS}/pol-{name}")


HOOKS: dict[str, Answer] = {
    "allows": Answer(response={"auditAnnotations": {"seen": "yes", "a/b": "x", "": "empty", "not valid!": "y"}}),
    "patches": Answer(patch=[{"op": "add", "path": "/data/hooked", "value": "<&>"}],
                      response={"auditAnnotations": {"patched": "1"}}),
    "nothing": Answer(patch=[]),
    "same": Answer(patch=[{"op": "test", "path": "/data/k", "value": "<&>"}]),
    "badpatch": Answer(patch=[{"op": "remove", "path": "/data/none"}]),
    "refuses": Answer(response={"allowed": False, "auditAnnotations": {"why": "no"}, "warnings": ["w"]}),
    "broken": Answer(review=False, status=500, raw="broken"),
    "slow": Answer(delay=0.8),
    "settles": Answer(response={"allowed": False}),
}  # fmt: skip


def hook(kind: str, name: str, **fields: Any) -> Obj:
    """Return a webhook about ConfigMaps with a label; the server that answers is told what by the path."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": ["configmaps"],
    }
    return {
        "name": f"{name}.example.com",
        "clientConfig": {
            "url": f"https://{{{{hook}}}}/{kind[0].lower()}/{name.rpartition('-')[2]}",
            "caBundle": "{{ca}}",
        },
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "objectSelector": {"matchLabels": {f"{kind[0].lower()}-{name}": "on"}},
        "timeoutSeconds": 5,
        **fields,
    }


def configuration(kind: str, *hooks: Obj) -> Ask:
    """Store webhooks of a kind."""
    path = f"{POLICY}/{kind.lower()}webhookconfigurations"
    return Ask("POST", path, {"metadata": {"name": f"{{{{ns}}}}-{len(hooks)}"}, "webhooks": [*hooks]})


def webhooks() -> Iterator[Step]:
    """Meet webhooks that patch, annotate, refuse and fail."""
    for kind in ("Mutating", "Validating"):
        names = [
            name for name in HOOKS if kind == "Mutating" or ("patch" not in name and name not in ("nothing", "same"))
        ]
        ignored = [hook(kind, f"ignored-{name}", failurePolicy="Ignore") for name in ("broken", "badpatch", "closed")]
        ignored[2]["clientConfig"] = {"url": "https://127.0.0.1:9/closed"}
        again = [hook(kind, "again-patches", reinvocationPolicy="IfNeeded")] if kind == "Mutating" else []
        yield configuration(kind, *again, *(hook(kind, name) for name in names), *ignored)
    for letter in "mv":
        yield Settle(Ask("POST", f"{MAPS}?dryRun=All", labeled("settle", **{f"{letter}-settles": "on"})))
    for letter, name in (
        *(
            ("m", name)
            for name in (
                *(name for name in HOOKS if name != "slow"),
                "ignored-broken",
                "ignored-badpatch",
                "ignored-closed",
            )
        ),
        *(("v", name) for name in ("allows", "refuses", "broken", "ignored-broken", "ignored-closed")),
    ):
        yield Ask("POST", MAPS, labeled(f"hook-{letter}-{name}", **{f"{letter}-{name}": "on"}))
    several = {"m-allows": "on", "m-patches": "on", "m-again-patches": "on", "v-allows": "on", "m-ignored-closed": "on"}
    yield Ask("POST", MAPS, labeled("several", **several))
    yield Ask("POST", MAPS, labeled("metadata-1", **several))
    yield Ask("PATCH", f"{MAPS}/metadata", {"metadata": {"labels": several}}, MEDIA["merge"])
    yield Ask("PATCH", f"{MAPS}/several", {"data": {"a": "b"}}, MEDIA["merge"])
    yield Ask("DELETE", f"{MAPS}/several")
    yield Ask("PATCH", f"{MAPS}/applied?fieldManager=m", labeled("applied", **several), MEDIA["apply"])


def slow() -> Iterator[Step]:
    """Meet webhooks that take a while, after which latencies are logged."""
    for kind in ("Mutating", "Validating"):
        yield configuration(kind, *(hook(kind, name) for name in ("slow", "refuses", "settles")))
    for letter in "mv":
        yield Settle(Ask("POST", f"{MAPS}?dryRun=All", labeled("settle", **{f"{letter}-settles": "on"})))
    both = {"m-slow": "on", "v-slow": "on"}
    yield Ask("POST", MAPS, labeled("slow", **{"v-slow": "on"}))
    yield Ask("PATCH", f"{MAPS}/slow", {"metadata": {"labels": both}}, MEDIA["merge"])
    master = {"Impersonate-User": "admin", "Impersonate-Group": "system:masters"}
    yield Ask("PUT", f"{MAPS}/slow", labeled("slow", **{"m-slow": "on"}), headers=master)
    yield Ask("POST", MAPS, labeled("slow-refused", **{"m-slow": "on", "v-refuses": "on"}))
    yield Ask("DELETE", f"{MAPS}/slow")


FLOWS: dict[str, Flow] = {
    "writes": writes,
    "invalid": invalid,
    "subresources": subresources,
    "people": people,
    "pages": pages,
    "pod_security": pod_security,
    "policies": policies,
    "webhooks": webhooks,
    "slow": slow,
}
