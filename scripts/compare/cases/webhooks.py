# ruff: noqa: E501 - the tables of answers read best with one in a line
"""Random webhook configurations and answers of webhooks, for `compare webhooks`."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

from scripts.common.comparing import Obj
from scripts.compare.cases.admission import AdmittedKind
from scripts.compare.cases.matches import AUTHORIZER_NAMES, MatchGenerator, names_for
from scripts.compare.cases.rules import Expressions
from scripts.compare.cases.webhook_server import Answer

STATUSES: tuple[Obj, ...] = (
    {"message": "no"}, {"reason": "NotFound"}, {"code": 404, "message": "gone", "reason": "NotFound"}, {"code": 200, "message": "fine"}, {"code": 999}, {},
    {"status": "Success", "message": "no"}, {"message": "m", "details": {"name": "n", "kind": "k", "causes": [{"reason": "r", "message": "c", "field": "f"}]}}, {"code": -1, "message": " "},
    {"message": "later", "reason": "TooManyRequests", "code": 429, "details": {"retryAfterSeconds": 7}}, {"code": 403, "reason": "Odd reason", "message": "a\nb \"c\""}, {"code": 301, "message": "x"},
    {"metadata": {"resourceVersion": "7"}, "message": "m"}, {"reason": "Conflict", "code": 409},
)  # fmt: skip
ALLOWED: tuple[Answer, ...] = (
    Answer(), Answer(), Answer(response={"warnings": ["careful", "again"]}), Answer(response={"auditAnnotations": {"a": "b"}}), Answer(headers={"Content-Type": "text/plain"}),
    Answer(response={"warnings": ["", "x" * 300, "q\"\\ é"]}), Answer(response={"status": {"code": 403, "message": "unused"}}), Answer(status=201), Answer(fields={"request": {"uid": "x"}}),
    Answer(response={"unknown": 1}, fields={"other": 2}),
)  # fmt: skip
BROKEN: tuple[Answer, ...] = (
    Answer(response={"uid": "other"}), Answer(response={"uid": None}), Answer(fields={"apiVersion": "admission.k8s.io/v1beta1"}), Answer(fields={"apiVersion": "admission.k8s.io/v2"}),
    Answer(fields={"kind": "Other"}), Answer(fields={"apiVersion": None, "kind": None}), Answer(fields={"response": None}), Answer(fields={"kind": None}), Answer(fields={"apiVersion": "v1", "kind": "Status"}),
    Answer(review=False, raw="null"), Answer(review=False, raw=""), Answer(review=False, raw="not JSON"), Answer(review=False, raw="[]"), Answer(review=False, raw="{}"), Answer(review=False, raw='"x"'),
    Answer(review=False, raw="apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nresponse: {allowed: true}"), Answer(review=False, raw='{"response": {"allowed": "yes"}}'),
    Answer(review=False, raw='{"apiVersion": "v1", "kind": "Pod"}'), Answer(review=False, status=500, raw="oops"), Answer(review=False, status=500, raw="oops", headers={"Content-Type": "text/plain"}),
    Answer(review=False, status=404, raw="none"), Answer(review=False, status=403, raw="no"), Answer(review=False, status=403, raw="no", headers={"Content-Type": "text/plain"}), Answer(review=False, status=204),
    Answer(review=False, status=400, raw=json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "from a status", "code": 400})), Answer(review=False, status=302, headers={"Location": "/other"}),
    Answer(review=False, status=307, headers={"Location": "/other"}), Answer(review=False, status=301), Answer(review=False, status=401), Answer(review=False, status=422, raw="x"), Answer(review=False, status=304),
    Answer(review=False, status=429, raw="slow down", headers={"Content-Type": "text/plain"}), Answer(review=False, status=503, raw="x"), Answer(review=False, status=418, raw="x"),
    Answer(closes=True), Answer(response={"allowed": None}), Answer(response={"warnings": "text"}), Answer(response={"allowed": False, "status": {"code": "x"}}), Answer(review=False, status=409, raw="c"),
)  # fmt: skip
SLOW = Answer(delay=1.6)
PATCHES: tuple[Any, ...] = (
    [{"op": "add", "path": "/metadata/labels/m", "value": "1"}], [{"op": "add", "path": "/metadata/labels", "value": {"m": "1"}}], [{"op": "add", "path": "/metadata/annotations", "value": {"m": "1"}}],
    [{"op": "replace", "path": "/metadata/labels/a", "value": "2"}], [{"op": "remove", "path": "/metadata/labels/a"}], [{"op": "test", "path": "/metadata/name", "value": "a"}], [],
    [{"op": "add", "path": "/metadata/labels/m", "value": 1}], [{"op": "add", "path": "/metadata/name", "value": "other"}], [{"op": "add", "path": "/metadata/nothing", "value": 1}],
    [{"op": "copy", "from": "/metadata/name", "path": "/metadata/labels/m"}], [{"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/m"}], [{"op": "remove", "path": "/nothing"}],
    [{"op": "odd", "path": "/metadata"}], [{"path": "/metadata"}], [{"op": "add", "value": 1}], [{"op": "add", "path": "x", "value": 1}], [{"op": "remove", "path": ""}], [{"op": "add", "path": "/metadata/finalizers", "value": ["e.io/m"]}],
    [{"op": "add", "path": "/metadata/labels", "value": None}], [{"op": "add", "path": "/metadata", "value": []}], [{"op": "add", "path": "/metadata/labels/a b", "value": "x"}], [{"op": "add", "path": "/nothing/x", "value": "x"}],
    "not JSON", "{}", "null", "[1]", "", '[{"op":"add","path":"/metadata/labels/m","value":"1","value":"2"}]', [{"op": "add", "path": "/metadata/namespace", "value": "elsewhere"}],
    [{"op": "add", "path": "/metadata/labels/m", "value": "1"}, {"op": "remove", "path": "/metadata/labels/m"}], [{"op": "add", "path": "/metadata/generateName", "value": "gen-"}],
    [{"op": "add", "path": "/metadata/managedFields", "value": []}], [{"op": "add", "path": "/metadata/resourceVersion", "value": "1"}], [{"op": "add", "path": "/metadata/uid", "value": "x"}],
)  # fmt: skip
KIND_PATCHES: dict[str, tuple[Any, ...]] = {
    "ConfigMap": ([{"op": "add", "path": "/data/m", "value": "1"}], [{"op": "remove", "path": "/data/a"}], [{"op": "add", "path": "/data", "value": {"m": 1}}], [{"op": "add", "path": "/immutable", "value": True}]),
    "Secret": ([{"op": "add", "path": "/data/m", "value": "YQ=="}], [{"op": "add", "path": "/stringData", "value": {"m": "1"}}], [{"op": "add", "path": "/data/m", "value": "%"}]),
    "Pod": (
        [{"op": "add", "path": "/spec/containers/-", "value": {"name": "d", "image": "m"}}], [{"op": "replace", "path": "/spec/containers/0/image", "value": "m"}], [{"op": "add", "path": "/spec/containers/9", "value": {}}],
        [{"op": "add", "path": "/spec/tolerations", "value": [{"key": "t", "operator": "Exists"}]}], [{"op": "remove", "path": "/spec/containers/0"}], [{"op": "add", "path": "/command", "value": ["y"]}],
    ),
    "Service": ([{"op": "replace", "path": "/spec/ports/0/port", "value": 99}], [{"op": "add", "path": "/spec/ports/0/name", "value": "p"}]),
    "ServiceAccount": ([{"op": "add", "path": "/automountServiceAccountToken", "value": False}],),
    "Deployment": ([{"op": "replace", "path": "/spec/replicas", "value": 7}], [{"op": "replace", "path": "/spec/replicas", "value": "x"}], [{"op": "remove", "path": "/spec/replicas"}]),
    "HorizontalPodAutoscaler": ([{"op": "replace", "path": "/spec/maxReplicas", "value": 9}],),
    "Event": ([{"op": "add", "path": "/message", "value": "m"}], [{"op": "replace", "path": "/reason", "value": "M"}]),
    "Thing": (
        [{"op": "add", "path": "/spec/n", "value": 7}], [{"op": "add", "path": "/spec/n", "value": "x"}], [{"op": "remove", "path": "/spec"}], [{"op": "add", "path": "/spec/unknown", "value": 1}],
        [{"op": "add", "path": "/spec/l", "value": ["m", "m"]}], [{"op": "add", "path": "/spec/m", "value": {"d": 1.50}}], [{"op": "replace", "path": "/spec/replicas", "value": 4}],
    ),
    "Lease": ([{"op": "replace", "path": "/spec/holderIdentity", "value": "m"}],),
    "ClusterRole": ([{"op": "add", "path": "/rules", "value": []}],),
    "Namespace": ([{"op": "add", "path": "/spec", "value": {"finalizers": ["e.io/m"]}}],),
}  # fmt: skip
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}


class WebhookGenerator(MatchGenerator):
    """Generates webhook configurations of a case with the answers of their webhooks, always the same for a seed."""

    def __init__(self, rng: random.Random, kinds: Sequence[AdmittedKind], case: str) -> None:
        super().__init__(rng, kinds, case)
        self.expressions = Expressions(rng, (*names_for(kinds), *AUTHORIZER_NAMES), ("object.metadata.labels",), 0.004)

    def configurations(self, *, mutating: bool) -> tuple[list[Obj], dict[str, Answer]]:
        """Return configurations and the answers of their webhooks, by path. Of validating webhooks, one may refuse."""
        letter, answers, made = "m" if mutating else "v", dict[str, Answer](), list[Obj]()
        refuses = True
        for i in range(self.rng.choice((1, 1, 2))):
            hooks = []
            for j in range(self.rng.choice((1, 1, 2))):
                path = f"/{self.case}/{letter}/{i}/{j}"
                answers[path] = self.answer(mutating=mutating) if mutating or refuses else self.rng.choice(ALLOWED)
                refuses = False
                hooks.append(self.hook(path, answers[path], mutating=mutating))
            made.append({"metadata": {"name": f"{self.case}-{letter}{i}"}, "webhooks": hooks})
        return made, answers

    def hook(self, path: str, answer: Answer, *, mutating: bool) -> Obj:
        """Return a webhook. Few have a mistake."""
        rng, rules = self.rng, self.rules()
        hook: Obj = {
            "name": f"{path.rpartition('/')[2]}.{path.split('/')[2]}.example.com",
            "clientConfig": {"url": f"https://{{{{hook}}}}{path}", "caBundle": "{{ca}}"},
            "rules": rules,
            "sideEffects": rng.choice(("None", "None", "NoneOnDryRun")),
            "admissionReviewVersions": rng.choice((["v1"], ["v1"], ["v1", "v1beta1"], ["v1beta1"], ["v2", "v1"])),
            **self.match_policy(),
            **self.selectors(rules),
        }
        if self.chance(0.5):
            hook["failurePolicy"] = rng.choice(("Fail", "Ignore"))
        if self.chance(0.2):
            hook["matchConditions"] = self.conditions(self.expressions)
        if mutating and self.chance(0.6):
            hook["reinvocationPolicy"] = rng.choice(("Never", "IfNeeded"))
        if answer is SLOW or self.chance(0.2):
            hook["timeoutSeconds"] = 1 if answer is SLOW else rng.choice((5, 30))
        if self.chance(0.05):
            hook["clientConfig"] = rng.choice(UNREACHABLE)
        if self.chance(0.03):
            name, value = rng.choice(MISTAKES)
            hook[name] = value
        return hook

    def answer(self, *, mutating: bool) -> Answer:
        """Return a random answer of a webhook."""
        rng = self.rng
        if self.chance(0.02):
            return SLOW
        if self.chance(0.2):
            return (
                Answer(response={"allowed": False, "status": rng.choice(STATUSES)})
                if self.chance(0.8)
                else Answer(response={"allowed": False})
            )
        if self.chance(0.2):
            return rng.choice(BROKEN)
        if self.chance(0.8 if mutating else 0.05):
            patch = rng.choice(rng.choice((PATCHES, KIND_PATCHES[rng.choice(self.kinds).name])))
            response = (
                rng.choice(({"patchType": None}, {"patchType": "Merge"}, {"patchType": ""}, {"allowed": False}))
                if self.chance(0.06)
                else {}
            )
            return Answer(patch=patch, response=response)
        return rng.choice(ALLOWED)


UNREACHABLE: tuple[Obj, ...] = (
    {"url": "https://{{hook}}/untrusted"},
    {"url": "https://127.0.0.1:1/refused", "caBundle": "{{ca}}"},
    {"service": {"namespace": "default", "name": "missing"}, "caBundle": "{{ca}}"},
    {"service": {"namespace": "missing", "name": "missing", "path": "/x", "port": 99}},
)  # fmt: skip
MISTAKES: tuple[tuple[str, Any], ...] = (
    ("sideEffects", "Some"), ("sideEffects", None), ("timeoutSeconds", 31), ("admissionReviewVersions", []), ("admissionReviewVersions", ["v2"]), ("name", "short"),
    ("failurePolicy", "Odd"), ("matchConditions", [{"name": "a", "expression": "1"}]), ("matchConditions", [{"name": "", "expression": "true"}]), ("rules", []),
    ("clientConfig", {"url": "http://127.0.0.1/x"}), ("clientConfig", {}), ("reinvocationPolicy", "Odd"), ("matchConditions", [{"name": "a", "expression": "namespaceObject == null"}]),
)  # fmt: skip
