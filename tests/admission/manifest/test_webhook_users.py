"""Webhooks are called as the users of a kubeconfig, as real servers of 1.32 and 1.37 call them."""

from __future__ import annotations

import base64
import json
import ssl
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import orjson
import pytest

from tests.admission_webhook import validating_webhook
from tests.certificates import new_authority
from tests.http import send
from tests.releases import often
from understudy import Server
from understudy.machinery.types import Obj

RECORDED = Path(__file__).with_name("recorded") / "webhook_users.jsonl"
# Every run asks the newest release of a row; -m every_recording asks the others.
ROWS = [
    pytest.param(release, row, id=f"{release}, {row['why']}", marks=often(release == row["releases"][0]))
    for row in map(orjson.loads, RECORDED.read_bytes().splitlines())
    for release in row["releases"]
]
CONFIGURATION = """
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ValidatingAdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: {folder}/m/kubeconfig
"""


def refusal(request: BaseHTTPRequestHandler) -> Obj:
    """Return a response that says who has asked."""
    assert isinstance(request.connection, ssl.SSLSocket)
    names = [name for name in request.headers if name == "Authorization" or name.startswith("Impersonate-")]
    named = {name: ", ".join(request.headers.get_all(name, ())) for name in names}
    has_certificate = request.connection.getpeercert() is not None and request.connection.getpeercert() != {}
    text = f"{json.dumps(named)} {request.headers['User-Agent']} certificate={has_certificate}"
    return {"allowed": False, "status": {"message": text}}


def asked(server: Server, hook: Obj) -> str:
    """Register the webhook for config maps; return what it says about one."""
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    assert send(server, "POST", path, {"metadata": {"name": "w"}, "webhooks": [hook]}).status == 201
    answer = send(server, "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}})
    return str(answer.json()["message"])


@pytest.mark.parametrize(("release", "row"), ROWS)
def test_webhooks_are_called_as_the_user_for_their_host(release: str, row: Obj, tmp_path: Path) -> None:
    """A server does not start, for the recorded reason, or calls a webhook with the recorded credentials."""
    client, folder = new_authority("hooker"), tmp_path / "m"
    folder.mkdir()
    (folder / "token").write_text("from-file\n")
    (folder / "cert.pem").write_bytes(client.pem)
    (folder / "key.pem").write_bytes(client.key_pem)
    file = tmp_path / "admission.yaml"
    file.write_text(CONFIGURATION.format(folder=tmp_path))
    text = row["kubeconfig"]
    for name, value in (("$CERT64", client.pem), ("$KEY64", client.key_pem)):
        text = text.replace(name, base64.b64encode(value).decode())
    with validating_webhook(refusal, client.pem.decode()) as hook:
        port = hook["clientConfig"]["url"].rpartition(":")[2].partition("/")[0]
        (folder / "kubeconfig").write_text(text.replace("$PORT", port))
        if "error" in row:
            with pytest.raises(ValueError, match="failed to apply admission") as refused:
                Server(emulated_version=release, admission_control_config_file=file)
            assert str(refused.value).replace(str(tmp_path), "$DIR") == row["error"]
            return
        with Server(emulated_version=release, admission_control_config_file=file) as server:
            assert asked(server, hook).replace(str(tmp_path), "$DIR") == row["message"]


def test_user_acts_as_another(tmp_path: Path) -> None:
    """A webhook is told whom the user of the kubeconfig acts as, with headers as client-go sends them."""
    acting = {"as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"x/y%": ["1", "2"]}}
    assert asked_as(acting, tmp_path) == {
        "Impersonate-User": "jane",
        "Impersonate-Uid": "7",
        "Impersonate-Group": "a, b",
        "Impersonate-Extra-x%2Fy%25": "1, 2",
    }
    assert asked_as({"as-groups": ["a"]}, tmp_path) == {}


def asked_as(user: Obj, folder: Path) -> Obj:
    """Return the headers with which a webhook is called as a user."""
    file = configuration(user, folder)
    with validating_webhook(refusal) as hook, Server(admission_control_config_file=file) as server:
        said = asked(server, hook).partition("denied the request: ")[2]
    headers: Obj = json.JSONDecoder().raw_decode(said)[0]
    return headers


def configuration(user: Obj, folder: Path) -> Path:
    """Write the files of a server that calls webhooks as a user; return that of its admission plugins."""
    (folder / "m").mkdir(exist_ok=True)
    users = [{"name": "*", "user": user}]
    (folder / "m" / "kubeconfig").write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "users": users}))
    file = folder / "admission.yaml"
    file.write_text(CONFIGURATION.format(folder=folder))
    return file
