"""Lets a server reach others through proxies, and tells what these were asked for and what clients got.

    python -m tests.apiserver.server.webhooks.egress_flow COMMAND… > RELEASE.jsonl

COMMAND starts kube-apiserver, takes its flags, and prints its address last in a line: `python3 real_server.py serve
--emulated-version 1.37 --`. Ports of this machine and paths are written as names.
"""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import trustme

from tests.connect_proxy import CONNECTED, ConnectProxy
from tests.http import MERGE_PATCH, Response, send
from tests.waiting import wait_until
from understudy.machinery.types import Obj

NAMESPACE = "/api/v1/namespaces/default"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
API_SERVICE = "v1.egress.example.com"
SERVICE_IP, POD_IP, NODE_IP = "10.0.0.77", "10.1.2.3", "10.9.9.9"
ANSWERS = {  # connections that there are would be used again, so the one that is made comes last
    "nothing": b"",
    "no HTTP": b"nonsense\r\n\r\n",
    "without reason": b"HTTP/1.1 503\r\n\r\n",
    "forbidden": b"HTTP/1.1 403 Forbidden\r\n\r\n",
    "connected": CONNECTED,
}
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"}


class Place(NamedTuple):
    """A place for the flow: the folder of sockets and certificates, the proxies by networks, and the webhook with
    its authority (PEM in base64)."""

    folder: Path
    proxies: dict[str, ConnectProxy]
    webhook: int  # its port
    bundle: str

    @property
    def configuration(self) -> Path:
        """Return the path of the EgressSelectorConfiguration."""
        return self.folder / "egress.yaml"

    def let_answer(self, answer: str) -> None:
        """Let the proxies answer in a way."""
        for proxy in self.proxies.values():
            proxy.answer = ANSWERS[answer]

    def row(self, step: str, answer: str, got: Any) -> Obj:
        """Return the answer that a client got, and what the proxies were asked for since the row before."""
        asked = {name: sorted({*proxy.asked}) for name, proxy in self.proxies.items() if proxy.asked}
        for proxy in self.proxies.values():
            proxy.asked.clear()
        text = json.dumps({"step": step, "answer": answer, "got": got, "asked": asked})
        text = text.replace(str(self.folder), "FOLDER").replace(f":{self.webhook}", ":WEBHOOK")
        named: Obj = json.loads(text.replace(self.proxies["cluster"].address, "PROXY"))
        return named


class _Webhook(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        review["response"] = {"uid": review.pop("request")["uid"], "allowed": True}
        answer = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        """Log nothing."""


@contextmanager
def _webhook(authority: trustme.CA) -> Iterator[int]:
    """Run a webhook that allows everything; yield its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "w.default.svc").configure_cert(context)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Webhook)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def place() -> Iterator[Place]:
    """Run a webhook, a proxy at a Unix socket to the control plane, and one over TLS to the cluster."""
    authority = trustme.CA()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="egress-")))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        context.verify_mode = ssl.CERT_REQUIRED
        authority.configure_trust(context)
        client = authority.issue_cert("client.example.com")
        pems = authority.cert_pem, client.cert_chain_pems[0], client.private_key_pem
        files = {name: folder / name for name in ("caBundle", "clientCert", "clientKey")}
        for path, pem in zip(files.values(), pems, strict=True):
            pem.write_to_path(path)
        port = stack.enter_context(_webhook(authority))
        control_plane = stack.enter_context(ConnectProxy(port).running(folder / "proxy.sock"))
        cluster = stack.enter_context(ConnectProxy(port).running(None, context))
        proxies = {"controlplane": control_plane, "cluster": cluster}
        made = Place(folder, proxies, port, base64.b64encode(authority.cert_pem.bytes()).decode())
        tls = {name: str(path) for name, path in files.items()}
        transports: dict[str, Obj] = {
            "controlplane": {"uds": {"udsName": control_plane.address}},
            "cluster": {"tcp": {"url": f"https://{cluster.address}", "tlsConfig": tls}},
        }
        made.configuration.write_text(json.dumps(configuration(transports)))
        yield made


def configuration(transports: dict[str, Obj]) -> Obj:
    """Return an EgressSelectorConfiguration with a transport for each network."""
    return {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [
            {"name": name, "connection": {"proxyProtocol": "HTTPConnect", "transport": transport}}
            for name, transport in transports.items()
        ],
    }


Ask = Callable[..., Response]


def rows(url: str, where: Place, settle: Callable[[], None]) -> Iterator[Obj]:
    """Yield the answers that clients get, and what the proxies were asked for. `settle` waits until webhooks are in
    force."""
    ask = partial(send, url, headers={"Authorization": "Bearer admintoken"})
    spec = {"clusterIP": SERVICE_IP, "ports": [{"port": 443, "targetPort": 8443}]}
    ask("POST", f"{NAMESPACE}/services", {"metadata": {"name": "w"}, "spec": spec})
    yield from _of_webhooks(ask, where, settle)
    yield from _of_pods(ask, where)
    yield where.row("metrics", "forbidden", _counted(ask))
    yield _of_api_service(ask, where)


def _of_webhooks(ask: Ask, where: Place, settle: Callable[[], None]) -> Iterator[Obj]:
    clients: dict[str, Obj] = {
        "url": {"url": f"https://127.0.0.1:{where.webhook}/x"},
        "service": {"service": {"namespace": "default", "name": "w"}},
    }
    for name, client in clients.items():
        hook = {"name": "w.example.com", "clientConfig": {**client, "caBundle": where.bundle}, "rules": [RULE]}
        hook |= {"sideEffects": "None", "admissionReviewVersions": ["v1"]}
        ask("POST", HOOKS, {"metadata": {"name": name}, "webhooks": [hook]})
        settle()
        for answer in ANSWERS:
            where.let_answer(answer)
            got = ask("POST", f"{NAMESPACE}/configmaps?dryRun=All", {"metadata": {"generateName": "m"}})
            yield where.row(f"webhook at a {name}", answer, [got.status, got.json().get("message")])
        ask("DELETE", f"{HOOKS}/{name}")
        settle()


def _of_pods(ask: Ask, where: Place) -> Iterator[Obj]:
    ask("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    kubelet = {"kubeletEndpoint": {"Port": 10250}}
    status: Obj = {"addresses": [{"type": "InternalIP", "address": NODE_IP}], "daemonEndpoints": kubelet}
    ask("PATCH", "/api/v1/nodes/n/status", {"status": status}, MERGE_PATCH)
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    ask("POST", f"{NAMESPACE}/pods", {"metadata": {"name": "p"}, "spec": spec})
    status = {"phase": "Running", "podIP": POD_IP, "podIPs": [{"ip": POD_IP}]}
    ask("PATCH", f"{NAMESPACE}/pods/p/status", {"status": status}, MERGE_PATCH)
    for method, path in (("GET", "p/log"), ("GET", "https:p:8443/proxy/x"), ("POST", "p/exec?command=a")):
        for answer in ("nothing", "forbidden"):
            where.let_answer(answer)
            headers = {"Authorization": "Bearer admintoken", **(UPGRADE if method == "POST" else {})}
            got = ask(method, f"{NAMESPACE}/pods/{path}", headers=headers)
            yield where.row(path, answer, [got.status, got.body.decode()])


def _counted(ask: Ask) -> list[str]:
    """Return the metrics of connections, but for their times, and for successes of the control plane: understudy asks
    whether a webhook of this machine speaks HTTP/2 on a connection of its own."""
    left_out = ("_sum{", 'le="0', 'le="2', 'http_connect",transport="uds"')
    lines = [line for line in ask("GET", "/metrics").body.decode().splitlines() if "apiserver_egress_dialer_" in line]
    return [line for line in lines if not any(part in line for part in left_out)]


def _of_api_service(ask: Ask, where: Place) -> Obj:
    subset = {"addresses": [{"ip": POD_IP}], "ports": [{"port": 8443}]}
    ask("POST", f"{NAMESPACE}/endpoints", {"metadata": {"name": "w"}, "subsets": [subset]})
    metadata = {"name": "w", "labels": {"kubernetes.io/service-name": "w"}}
    endpoints = [{"addresses": [POD_IP], "conditions": {"ready": True}}]
    ports = [{"name": "", "port": 8443}]
    ask("POST", SLICES, {"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints, "ports": ports})
    spec: Obj = {"group": "egress.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
    spec |= {"service": {"namespace": "default", "name": "w", "port": 443}, "insecureSkipTLSVerify": True}
    ask("POST", API_SERVICES, {"metadata": {"name": API_SERVICE}, "spec": spec})

    def condition() -> Obj:
        found = ask("GET", f"{API_SERVICES}/{API_SERVICE}").json().get("status", {}).get("conditions") or [{}]
        return {key: found[0].get(key) for key in ("status", "reason", "message")}

    return where.row("APIService", "forbidden", wait_until(condition, lambda seen: "proxy" in (seen["message"] or "")))


def main() -> None:
    """Record a server."""
    with place() as where:
        flags = ["--egress-selector-config-file", str(where.configuration)]
        server = subprocess.Popen([*sys.argv[1:], *flags], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[-1]
            for row in rows(url, where, lambda: time.sleep(2)):
                print(json.dumps(row), flush=True)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
