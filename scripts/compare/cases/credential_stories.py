"""The stories of `compare access` about kubeconfigs whose users log in by a password, or by what a command prints.

In what the command prints, {{certificate}} and {{key}} are those of a client that the webhook knows, in JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from scripts.common.comparing import Obj
from scripts.compare.cases import image_stories
from scripts.compare.cases.access_stories import (
    ALLOWED,
    FILE,
    PAGE,
    REFUSED,
    TOKEN_WEBHOOK,
    WEBHOOK,
    Ask,
    Hook,
    Story,
    asks,
    config_map,
    kubeconfig,
    of_token,
    plain,
)
from scripts.compare.cases.oidc_stories import Pause
from scripts.compare.cases.webhook_server import Answer

GROUP = "client.authentication.k8s.io"
MAPS = "/api/v1/namespaces/default/configmaps"
SEEN = 1.0  # seconds until a real server calls a webhook that is registered
PLUGIN = """
for name in KUBERNETES_EXEC_INFO A HOME; do printenv $name >> {{dir}}/ran || echo "no $name" >> {{dir}}/ran; done
echo "$*" >> {{dir}}/ran
cat {{dir}}/printed
exit $(cat {{dir}}/code)
"""


class Put(NamedTuple):
    """The content that a file has from now on, which no server looks at by itself."""

    name: str
    content: str


class Ran(NamedTuple):
    """A look at the lines that the command has written since the last time about how it was run."""


def credential(version: str = "v1", **status: Any) -> Put:
    """Return the file with the text that the command prints: an ExecCredential."""
    content = {"apiVersion": f"{GROUP}/{version}", "kind": "ExecCredential", "status": status}
    return Put("printed", json.dumps(content))


def command(version: str = "v1", **fields: Any) -> Obj:
    """Return a user who logs in by what the command prints."""
    named = {"apiVersion": f"{GROUP}/{version}", "command": "sh", "interactiveMode": "Never"}
    return {"exec": {**named, "args": ["{{dir}}/plugin.sh", "a", "b c"], **fields}}


def files(
    user: Obj, name: str = "hook.kubeconfig", path: str = "/authz", cluster: Mapping[str, Any] = {}
) -> dict[str, str]:
    """Return the files of a server that calls the webhook as a user; `cluster` are more fields of the webhook's."""
    config = json.loads(kubeconfig(f"https://{{{{hook}}}}{path}", **user))
    config["clusters"][0]["cluster"] |= cluster
    printed = credential(token="first").content
    return {name: json.dumps(config), "plugin.sh": PLUGIN, "printed": printed, "code": "0"}


_ASKED = (PAGE, Ran())
_OVER = "2001-01-01T00:00:00Z"  # so that the command is run each time
_NAMED = f'"apiVersion": "{GROUP}/v1", "kind": "ExecCredential"'
_STATUS = f'"status": {{"token": "t", "expirationTimestamp": "{_OVER}"}}'
_PRINTED = (
    *("", "hello", '{"a"', "{}", "[1]", "a: b: c", f"{{{_NAMED}}} x"),
    f"apiVersion: {GROUP}/v1\nkind: ExecCredential\nstatus: {{token: yaml, expirationTimestamp: '{_OVER}'}}\n",
    f'{{"apiVersion": "{GROUP}/v1", {_STATUS}}}',
    f'{{"kind": "ExecCredential", {_STATUS}}}',
    f'{{"apiVersion": "{GROUP}/v1", "kind": "Odd"}}',
    '{"apiVersion": "v1", "kind": "Pod"}',
    f'{{"apiVersion": "{GROUP}/v1beta1", "kind": "ExecCredential", {_STATUS}}}',
    f'{{"apiVersion": "{GROUP}/v1alpha1", "kind": "ExecCredential", {_STATUS}}}',
    f"{{{_NAMED}}}",
    f'{{{_NAMED}, "status": {{"expirationTimestamp": "soon"}}}}',
    f'{{{_NAMED}, "status": {{"token": 1}}}}',
    f'{{{_NAMED}, "x": 1, {_STATUS}}}',
)
_PAIR = {"clientCertificateData": "{{certificate}}", "clientKeyData": "{{key}}"}
_BLOCK = "-----BEGIN {0}-----\nAAAA\n-----END {0}-----\n"
_STATUSES: Mapping[str, Obj] = {
    "nothing": {},
    "a certificate alone": {"clientCertificateData": "{{certificate}}"},
    "a key alone": {"token": "t", "clientKeyData": "{{key}}"},
    "no PEM": {"clientCertificateData": "x", "clientKeyData": "y"},
    "no PEM for the key": {**_PAIR, "clientKeyData": "y"},
    "the wrong way around": {"clientCertificateData": "{{key}}", "clientKeyData": "{{certificate}}"},
    "a certificate as key": {**_PAIR, "clientKeyData": "{{certificate}}"},
    "other blocks": {**_PAIR, "clientCertificateData": _BLOCK.format("A") + _BLOCK.format("B")},
    "other blocks for the key": {**_PAIR, "clientKeyData": _BLOCK.format("A") + _BLOCK.format("B")},
    "no certificate": {**_PAIR, "clientCertificateData": _BLOCK.format("CERTIFICATE")},
    "no key": {**_PAIR, "clientKeyData": _BLOCK.format("PRIVATE KEY")},
    "another key": {**_PAIR, "clientKeyData": "{{other}}"},
    "another kind of key": {**_PAIR, "clientKeyData": "{{rsa}}"},
    "a pair": _PAIR,
}
_EXTENSIONS = [{"name": "other", "extension": 1}, {"name": f"{GROUP}/exec", "extension": {"b": "<&>", "a": [1, 2.50]}}]
_OUTSIDE = {"tls-server-name": "localhost", "disable-compression": True, "extensions": _EXTENSIONS}
_HINT = {"command": "no-such-command", "installHint": "get \x1b[1mit"}
_RULES = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]
_HOOK = {
    "name": "w.example.com",
    "clientConfig": {"url": "https://{{hook}}/admission", "caBundle": "{{ca}}"},
    "rules": _RULES,
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
_HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_REGISTERED = Ask("POST", _HOOKS, {"metadata": {"name": "w"}, "webhooks": [_HOOK]}, token="admintoken")
_ADMISSION = {
    "apiVersion": "apiserver.config.k8s.io/v1",
    "kind": "AdmissionConfiguration",
    "plugins": [
        {
            "name": "ValidatingAdmissionWebhook",
            "configuration": {
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": "WebhookAdmissionConfiguration",
                "kubeConfigFile": "{{dir}}/hook.kubeconfig",
            },
        }
    ],
}
_MADE = Ask("POST", f"{MAPS}?dryRun=All", config_map("a"), token="admintoken")


def admission(user: Obj, *steps: Any) -> Story:
    """Return the story of an admission webhook that is called as a user, which refuses everything."""
    config = json.dumps({"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": user}]})
    answered = Hook(answer=Answer(response={"allowed": False}), path="/admission")
    told = {**files({}), "hook.kubeconfig": config, "admission.yaml": json.dumps(_ADMISSION)}
    options = {"admission_control_config_file": "{{dir}}/admission.yaml"}
    return Story(options, (answered, _REGISTERED, Pause(SEEN), *(steps or (_MADE, Ran()))), told)


def images(user: Obj) -> Story:
    """Return the story of ImagePolicyWebhook that asks its webhook as a user."""
    answer = image_stories.images({"allowed": True})
    told = {**files({}), **image_stories.configured(image_stories.policy())}
    told |= files(user, "images.kubeconfig", "/images")
    return Story(image_stories.FLAGS, (answer, image_stories.made("a", "one"), Ran()), told)


def audit(user: Obj) -> Story:
    """Return the story of an audit webhook that is sent events as a user."""
    logged = [{"level": "Metadata", "users": ["admin"], "resources": [{"group": "", "resources": ["configmaps"]}]}]
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": logged}
    told = {**files(user, path="/audit"), "audit.yaml": json.dumps(policy)}
    return Story(_AUDIT, (Hook(answer=Answer(review=False), path="/audit"), _MADE, Ran()), told)


_AUDIT = {
    "audit_policy_file": "{{dir}}/audit.yaml",
    "audit_webhook_config_file": "{{dir}}/hook.kubeconfig",
    "audit_webhook_mode": "blocking",
}
CREDENTIALS: dict[str, Story] = {
    "a password": Story(WEBHOOK, (Hook(ALLOWED), PAGE), files({"username": "jane", "password": "a:b<&>é"})),
    "a name without a password": Story(WEBHOOK, (Hook(ALLOWED), PAGE), files({"username": "jane"})),
    "a command": Story(
        WEBHOOK,
        (
            *(Hook(ALLOWED), *_ASKED, Ask("GET", "/healthz"), Ran(), credential(token="second"), *_ASKED),
            *(plain(status=401, raw="no"), *_ASKED, Hook(ALLOWED), *_ASKED),
            *(Put("code", "3"), plain(status=401, raw="no"), *_ASKED, Hook(REFUSED), *_ASKED),
        ),
        files(command(env=[{"name": "A", "value": "1"}, {"name": "HOME", "value": "h"}, {"name": "A", "value": "2"}])),
    ),
    "a command, credentials that are over": Story(
        WEBHOOK,
        (
            # A real server runs the command again for the handshake of a new connection.
            *(Hook(ALLOWED), credential(token="old", expirationTimestamp="2001-01-01T00:00:00+02:00"), PAGE),
            *(Put("ran", ""), *_ASKED, credential(token="new", expirationTimestamp="2999-01-01T00:00:00Z")),
            *(*_ASKED, *_ASKED),
        ),
        files(command()),
    ),
    "a command that is told of the server": Story(
        WEBHOOK, (Hook(ALLOWED), *_ASKED), files(command(provideClusterInfo=True), cluster=_OUTSIDE)
    ),
    "a command that is told of a server without a certificate": Story(
        WEBHOOK,
        (Hook(ALLOWED), credential("v1beta1", token="t"), *_ASKED),
        files(
            command("v1beta1", provideClusterInfo=True, interactiveMode=None),
            cluster={"certificate-authority-data": None, "insecure-skip-tls-verify": True},
        ),
    ),
    "a command that prints certificates": Story(
        WEBHOOK,
        (
            *(Hook(ALLOWED), credential(**_PAIR), *_ASKED, plain(status=401, raw="no")),
            *(credential(token="t", **_PAIR), *_ASKED, Hook(ALLOWED), *_ASKED),
        ),
        files(command()),
    ),
    "a command that fails": Story(
        WEBHOOK,
        (Hook(ALLOWED), Put("code", "3"), *_ASKED, Put("code", "0"), *_ASKED),
        files(command()),
    ),
    "a command that is killed": Story(
        WEBHOOK, (Hook(ALLOWED), PAGE), files(command(command="sh", args=["-c", "kill -9 $$"]))
    ),
    "a command that is not there": Story(WEBHOOK, (Hook(ALLOWED), *[PAGE] * 12), files(command(**_HINT))),
    "a file that is not there": Story(WEBHOOK, (Hook(ALLOWED), PAGE), files(command(command="./no/such"))),
    "a file that is no program": Story(WEBHOOK, (Hook(ALLOWED), PAGE), files(command(command="./plugin.sh"))),
    "a folder": Story(WEBHOOK, (Hook(ALLOWED), PAGE), files(command(command="/usr"))),
    "a command that wants a terminal": Story(WEBHOOK, (Hook(ALLOWED), PAGE), files(command(interactiveMode="Always"))),
    "a command beside a token": Story(WEBHOOK, (Hook(ALLOWED), *_ASKED), files({"token": "mine", **command()})),
    "a command beside a password": Story(
        WEBHOOK, (Hook(ALLOWED), *_ASKED), files({"username": "me", "password": "p", **command()})
    ),
    "a command and acting as another": Story(WEBHOOK, (Hook(ALLOWED), *_ASKED), files({"as": "jane", **command()})),
    "a command over plain HTTP": Story(
        {**WEBHOOK, FILE: "{{dir}}/plain.kubeconfig"},
        (PAGE, Ran()),
        {**files({}), "plain.kubeconfig": kubeconfig("http://{{refused}}/authz", **command())},
    ),
    "what a command prints": Story(
        WEBHOOK,
        (Hook(ALLOWED), *(step for text in _PRINTED for step in (Put("printed", text), PAGE))),
        files(command()),
    ),
    "credentials that a command prints": Story(
        WEBHOOK,
        (Hook(ALLOWED), *(step for status in _STATUSES.values() for step in (credential(**status), PAGE))),
        files(command()),
    ),
    "a command that authenticates": Story(
        TOKEN_WEBHOOK,
        (of_token({"authenticated": True, "user": {"username": "carol"}}), asks("t1"), Ran()),
        files(command(), "tokens.kubeconfig", "/tokens"),
    ),
    "a password for reviews of images": images({"username": "jane", "password": "p"}),
    "a command for reviews of images": images(command(provideClusterInfo=True)),
    "acting as another for reviews of images": images({"token": "mine", "as": "jane", "as-groups": ["a"]}),
    "a password for events": audit({"username": "jane", "password": "p"}),
    "a command for events": audit(command(provideClusterInfo=True)),
    "acting as another for events": audit({"token": "mine", "as": "jane", "as-groups": ["a"]}),
    "a command of an admission webhook": admission(command(provideClusterInfo=True)),
    "a command without a mode": admission(command(interactiveMode=None)),
    "a command without a mode that needs none": admission(
        command("v1beta1", interactiveMode=None), credential("v1beta1", token="t"), _MADE, Ran()
    ),
    "a command of another version": admission(command("v1alpha1")),
    "a command in another mode": admission(command(interactiveMode="Maybe")),
    "a command of a user with a token": admission({"token": "mine", **command()}),
    "an auth-provider of an admission webhook": admission({"auth-provider": {"name": "gcp"}}),
}
