"""Compare two API servers by random admission webhooks: what they ask them, and what they make of the answers.

    python -m scripts.compare webhooks https://127.0.0.1:6443 https://127.0.0.1:8001 --token TOKEN --seed 1 --batches 10

The script plays the webhooks: one HTTPS server for each API server, on 127.0.0.1, which both must be able to reach. A
batch has mutating and validating configurations in force, about the requests of one case each, with random rules,
selectors, conditions and policies; their webhooks allow, refuse, patch, or answer what no server understands. Random
sequences of requests are sent, as `compare requests` sends them, of built-in kinds, a custom one, and their
subresources. The answers of both servers must agree, and so must the reviews that the webhooks got, with the order of
their fields. The first difference of a sequence is shrunk and printed, after its configurations. The exit status is 1
if anything differs, if nothing agreed, or if the left server left more than a few requests without an answer.

The token must be that of a member of `system:masters` on both servers; they may authorize by RBAC. A real server asks
validating webhooks in any order: no case depends on it, since only one of them refuses. A sequence that differs is sent
again before that is reported, since a server whose cache is behind asks twice about an update. These differences stay:

- a field that a patch adds to a custom resource and its schema does not have: webhooks that are asked later in another
  version, or again, still see it on kube-apiserver, and no `creationTimestamp` of null
- a mutating policy that sets `data` of a Secret after `stringData`: the latter wins on kube-apiserver
- metadata that is patched to a list in a custom resource: 500 with another text
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from scripts.common.comparing import Answer, Obj, Server, require_servers
from scripts.compare.cases.admission import (
    REGISTRATION,
    AdmissionPair,
    AdmittedKind,
    Batch,
    Case,
    Marker,
    add_admission_arguments,
    refuses_config_map,
    run_batches,
)
from scripts.compare.cases.webhook_server import Answer as WebhookAnswer
from scripts.compare.cases.webhook_server import WebhookServer
from scripts.compare.cases.webhooks import RULE, WebhookGenerator
from scripts.compare.sequences.answers import normalized
from scripts.compare.sequences.steps import Player, Step

CONFIGURATIONS = {
    mutating: f"{REGISTRATION}/v1/{'mutating' if mutating else 'validating'}webhookconfigurations"
    for mutating in (True, False)
}
REFUSAL = WebhookAnswer(response={"allowed": False})


def field_order(value: Any) -> Any:
    """Return the names of an object's fields in their order, with those of the objects inside."""
    if isinstance(value, dict):
        return [(name, field_order(item)) for name, item in value.items()]
    return [field_order(item) for item in value] if isinstance(value, list) else None


class WebhookPair(AdmissionPair):
    """Two servers, each with webhooks of its own, which answer alike; what these got is compared with every answer."""

    def __init__(self, real: Server, other: Server, webhooks: tuple[WebhookServer, WebhookServer], known: str) -> None:
        self.webhooks = {id(real): webhooks[0], id(other): webhooks[1]}
        super().__init__(real, other, known)

    def player(self, server: Server, namespace: str) -> Player:
        """Return a sender of requests to a server, with the address of its webhooks in place of {{hook}}."""
        player, webhook = super().player(server, namespace), self.webhooks[id(server)]
        player.words |= {"hook": f"127.0.0.1:{webhook.port}", "ca": webhook.bundle}
        return player

    def comparable(self, server: Server, answer: Answer, step: Step) -> Any:
        """Return the answer and what the webhooks got, without the address of the webhooks."""
        webhook = self.webhooks[id(server)]
        headers = [(name, self.hidden(webhook, value)) for name, value in answer.headers]
        body = self.hidden(webhook, answer.body.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        calls = json.loads(self.hidden(webhook, json.dumps(normalized(webhook.taken()))))
        compared = super().comparable(server, answer._replace(headers=headers, body=body), step)
        asked = [call["path"] for call in calls]
        return {**compared, "asked": asked, "calls": calls, "order": [field_order(call["body"]) for call in calls]}

    def hidden(self, webhook: WebhookServer, text: str) -> str:
        """Return a text without the address and the certificate of webhooks."""
        return text.replace(f"127.0.0.1:{webhook.port}", "HOOK").replace(webhook.bundle, "BUNDLE")

    def open_namespace(self, server: Server, namespace: str) -> None:
        """Create a namespace as for policies, and forget what the webhooks were asked about that."""
        super().open_namespace(server, namespace)
        self.webhooks[id(server)].taken()


class WebhookBatch(Batch):
    """Webhooks, mutating and validating ones in each case."""

    def __init__(self, pair: WebhookPair, rng: random.Random, name: str) -> None:
        super().__init__(pair, rng, name)
        self._webhooks = tuple(pair.webhooks.values())

    def case(self, name: str, kinds: Sequence[AdmittedKind]) -> Case | None:
        """Compare the answers to random configurations."""
        generator, taken = WebhookGenerator(self.rng, kinds, name), list[Obj]()
        for mutating in self.rng.choice(((True,), (True,), (False,), (True, False))):
            configurations, answers = generator.configurations(mutating=mutating)
            for webhook in self._webhooks:
                webhook.answers |= answers
            taken += [obj for obj in configurations if self.store(CONFIGURATIONS[mutating], obj)]
            taken += [{path: str(answer)} for path, answer in answers.items()]
        return Case(taken, kinds)

    def held(self, kind: str) -> list[tuple[str, Obj]]:
        """Return nothing: webhooks have no parameters."""
        return []

    def markers(self) -> dict[str, tuple[Marker, ...]]:
        """Store webhooks of both kinds that refuse a request of their own."""
        for mutating, path in CONFIGURATIONS.items():
            letter = "m" if mutating else "v"
            for webhook in self._webhooks:
                webhook.answers[f"/{self.name}/{letter}"] = REFUSAL
            name = f"{self.name}-{letter}"
            hook = {
                "name": "marker.example.com",
                "clientConfig": {"url": f"https://{{{{hook}}}}/{self.name}/{letter}", "caBundle": "{{ca}}"},
                "rules": [RULE],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "namespaceSelector": {"matchLabels": {"batch": self.name}},
                "objectSelector": {"matchLabels": {"marker": name}},
            }
            self.must_store(path, {"metadata": {"name": name}, "webhooks": [hook]})
        return {"ConfigMap": tuple(refuses_config_map(f"{self.name}-{letter}") for letter in "mv")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_admission_arguments(parser)


def run(options: argparse.Namespace) -> int:
    servers = Server(options.left, options.token), Server(options.right, options.token)
    require_servers(*servers)
    with ExitStack() as stack:
        webhooks = stack.enter_context(WebhookServer()), stack.enter_context(WebhookServer())
        pair = WebhookPair(*servers, webhooks, options.known)
        return run_batches(pair, lambda _seed, rng, name: WebhookBatch(pair, rng, name), options)
