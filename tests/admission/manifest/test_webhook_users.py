"""Webhooks are called as the users of a kubeconfig, as real servers of 1.32 and 1.37 call them."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import orjson
import pytest
import trustme

from tests.certificates import Holder, new_authority
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


class Handler(BaseHTTPRequestHandler):
    """Refuses everything, and says who has asked."""

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert isinstance(self.connection, ssl.SSLSocket)
        names = [name for name in self.headers if name == "Authorization" or name.startswith("Impersonate-")]
        named = {name: ", ".join(self.headers.get_all(name, ())) for name in names}
        has_certificate = self.connection.getpeercert() is not None and self.connection.getpeercert() != {}
        text = f"{json.dumps(named)} {self.headers['User-Agent']} certificate={has_certificate}"
        response = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": text}}
        answer = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        """Log nothing."""


@contextmanager
def webhook(client: Holder, folder: Path) -> Iterator[Obj]:
    """Run a webhook that asks for the certificate of a client; yield its client config."""
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=client.pem.decode())
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
        yield {"url": f"https://127.0.0.1:{server.server_port}/x", "caBundle": bundle}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def asked(server: Server, client_config: Obj) -> str:
    """Register the webhook for config maps; return what it says about one."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    hook = {
        "name": "w.example.com",
        "clientConfig": client_config,
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
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
    with webhook(client, tmp_path) as client_config:
        port = client_config["url"].rpartition(":")[2].partition("/")[0]
        (folder / "kubeconfig").write_text(text.replace("$PORT", port))
        if "error" in row:
            with pytest.raises(ValueError, match="failed to apply admission") as refused:
                Server(emulated_version=release, admission_control_config_file=file)
            assert str(refused.value).replace(str(tmp_path), "$DIR") == row["error"]
            return
        with Server(emulated_version=release, admission_control_config_file=file) as server:
            assert asked(server, client_config).replace(str(tmp_path), "$DIR") == row["message"]


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
    with webhook(new_authority("hooker"), folder) as hook, Server(admission_control_config_file=file) as server:
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
