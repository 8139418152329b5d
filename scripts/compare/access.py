"""Compare what an API server asks webhooks that authorize and authenticate, and what it makes of their answers.

    python -m scripts.compare access --program kube-apiserver --etcd etcd --release 1.37 [--save FILE]

Plays the stories of `cases/access_stories.py`: for each it starts the real server and this one with the same flags, a
webhook that answers as the story says and keeps what it is asked, and sends the same requests to both. The answers must
agree, and the calls of the webhook with paths, headers and bodies. `--save` writes what the real server did, which
`tests/apiserver/authorization/webhook` plays again.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from scripts.common.comparing import PATIENCE, Answer, Obj, Server, Tally, differences, print_difference
from scripts.compare.cases.access_stories import STORIES as ACCESS
from scripts.compare.cases.access_stories import TOKENS, Ask, Hook, Story, review
from scripts.compare.cases.configuration_stories import CONFIGURED, Metrics, Write
from scripts.compare.cases.credential_stories import CREDENTIALS, Put, Ran
from scripts.compare.cases.front_proxy_stories import FRONT_PROXIES, write_certificates
from scripts.compare.cases.image_stories import IMAGES
from scripts.compare.cases.oidc_stories import DISTRIBUTED, WELL_KNOWN, Pause, Sign
from scripts.compare.cases.token_stories import TOKENS_IN_SECRETS, Annotations, Keep, Show
from scripts.compare.cases.webhook_server import Answer as WebhookAnswer
from scripts.compare.cases.webhook_server import WebhookServer
from scripts.compare.controllers import controllers_beside
from scripts.compare.sequences.answers import mask
from scripts.record.upstream.server import api_server, new_key
from understudy import Server as Understudy
from understudy.apiserver.authentication.jose import jwk_of, new_private_key, pem_of, sign

STORIES = {**ACCESS, **CONFIGURED, **TOKENS_IN_SECRETS, **IMAGES, **CREDENTIALS, **DISTRIBUTED, **FRONT_PROXIES}
CREDENTIAL = re.compile(r"SHA256=[0-9a-f]{64}")  # that of a certificate
CLIENT = re.compile(r"127\.0\.0\.1:\d+->")
ADMIN = TOKENS.partition(",")[0]
DAY = re.compile(r"\d{4}-\d\d-\d\d")
CONTROLLER_SECONDS = 60.0  # that controllers may take to start, and to do what they do
LATENCY = "apiserver.latency.k8s.io/"
SENT = ("content-type", "accept", "user-agent", "authorization")


class Real(NamedTuple):
    """The programs of a real server."""

    program: Path
    etcd: Path


def filled(text: str, words: Obj) -> str:
    """Return a text with words in the place of their names."""
    for name, word in words.items():
        text = text.replace(f"{{{{{name}}}}}", word)
    return text


@contextmanager
def refused_address() -> Iterator[str]:
    """Give an address at which nothing listens: its port is taken, but not listened to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def keys_of(hook: WebhookServer) -> Obj:
    """Return the words of stories in which the webhook is an issuer of tokens."""
    key, authority = new_private_key(), base64.b64decode(hook.bundle).decode()
    keys = json.dumps({"keys": [jwk_of(key.public_key())]})
    return {"signing": pem_of(key).decode(), "keys": keys, "ca_pem": authority, "ca_text": json.dumps(authority)[1:-1]}


@contextmanager
def started(story: Story, words: Obj, real: Real | None, release: str) -> Iterator[Any]:
    """Run the server of a story, a real one or this one, with the controllers that it names."""
    folder = Path(words["dir"])
    if "requestheader_client_ca_file" in story.options:
        write_certificates(folder)
    for name, content in story.files.items():
        (folder / name).write_text(filled(content, words))
    options: Obj = {name: filled(value, words) for name, value in story.options.items()}
    if real is None:
        tokens = folder / "tokens.csv"
        tokens.write_text(TOKENS)
        with Understudy(emulated_version=release, token_auth_file=tokens, **options) as server:
            yield server
        return
    controllers, key, authority = options.pop("controllers", ""), folder / "key.pem", folder / "ca.pem"
    if controllers:
        key.write_bytes(new_key())
        authority.write_bytes(base64.b64decode(words["ca"]))
        options |= dict.fromkeys(("service_account_key_file", "service_account_signing_key_file"), key)
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    manager = f"{real.program.with_name('kube-controller-manager')} --controllers={controllers} --leader-elect=false"
    manager += f" --secure-port=0 --service-account-private-key-file={key} --kubeconfig={{kubeconfig}}"
    manager += f" --root-ca-file={authority}"
    with ExitStack() as stack:
        running = stack.enter_context(api_server(real.program, real.etcd, *flags, tokens=TOKENS))
        if controllers:
            stack.enter_context(controllers_beside(manager, running.url, ADMIN, 0))
        yield running


def played(story: Story, real: Real | None, release: str) -> list[Obj]:
    """Send the requests of a story; return their outcome: the answer, and the calls of the webhook."""
    with tempfile.TemporaryDirectory() as folder, WebhookServer() as hook, refused_address() as refused:
        words = {"dir": folder, "hook": f"127.0.0.1:{hook.port}", "refused": refused, "ca": hook.bundle, **hook.client}
        words |= keys_of(hook) if story.hooks else {}
        for path, raw in story.hooks.items():
            hook.answers[path] = WebhookAnswer(review=False, raw=filled(raw, words))
        with started(story, words, real, release) as server, Server(server.url) as client:
            hook.taken()
            lines = [
                line for number, step in enumerate(story.steps) for line in taken(number, step, client, hook, words)
            ]
        return [hidden(line, words) for line in lines]


def taken(number: int, step: Any, client: Server, hook: WebhookServer, words: Obj) -> Iterator[Obj]:
    """Take a step of a story; yield its outcome, if it has one."""
    match step:
        case Hook():
            given = step.answer or review(step.status)
            hook.answers[step.path] = replace(given, raw=filled(given.raw, words))
        case Sign():
            claims = {"iss": step.issuer, **step.claims}
            key = load_pem_private_key(words["signing"].encode(), None)
            assert isinstance(key, RSAPrivateKey)
            words[step.name] = sign(key, json.loads(filled(json.dumps(claims), words)))
        case Pause():
            time.sleep(step.seconds)
        case Put():
            (Path(words["dir"]) / step.name).write_text(filled(step.content, words))
        case Ran():
            said = Path(words["dir"]) / "ran"
            yield {"request": "ran", "body": said.read_text() if said.exists() else ""}
            said.unlink(missing_ok=True)
        case Write():
            rewrite(client, words["dir"], step, words)
        case Metrics():
            yield {"request": step.prefix, "body": [without_time(line) for line in counted(client, step)]}
        case Keep():
            token = waited(client, step.path, lambda obj: (obj.get("data") or {}).get("token"))["data"]["token"]
            words[step.name] = base64.b64decode(token).decode()
        case Show():
            obj = waited(client, step.path, lambda obj: obj["kind"] == "Status" if step.gone else held(obj, step.field))
            yield {"request": f"show {step.path}", "body": shown(obj)}
        case Annotations():
            yield {"request": "annotations", "body": annotations_of(Path(words["dir"]) / "audit.log", number - 1)}
        case _:
            headers = {"Audit-ID": f"step-{number}", **step.headers}
            body = None if step.body is None else json.loads(filled(json.dumps(step.body), words))
            token = step.token and filled(step.token, words)
            step = step._replace(body=body, token=token, headers=headers)
            answer = presented(client, step, words["dir"]) if step.more or step.certificate else asked(client, step)
            # An issuer may be asked where its keys are during a request or after it.
            calls = [call_of(call) for call in hook.taken() if not call["path"].endswith(WELL_KNOWN)]
            yield {"request": f"{step.method} {step.path}", **compared(answer), "calls": calls}


def held(obj: Obj, path: str) -> Any:
    """Return the field of an object at a dotted path, None for none."""
    for name in path.split("."):
        obj = obj.get(name) or {}
    return obj or None


def waited(client: Server, path: str, is_there: Callable[[Obj], Any]) -> Obj:
    """Return an object once it is as it has to become; a Status if there is none. Raises TimeoutError."""
    until = time.monotonic() + CONTROLLER_SECONDS
    while True:
        obj: Obj = json.loads(client.exchange("GET", path, {"Authorization": f"Bearer {ADMIN}"}).body)
        if is_there(obj):
            return obj
        if time.monotonic() > until:
            raise TimeoutError(f"{path} is {obj}")
        time.sleep(0.02)


def shown(obj: Obj) -> Obj:
    """Return the compared parts of a stored object: the data of a Secret as texts, but for tokens and days."""
    metadata = obj.get("metadata") or {}
    entries = [{**entry, "time": ""} for entry in metadata.get("managedFields") or ()]
    data = {name: mask(base64.b64decode(value).decode()) for name, value in (obj.get("data") or {}).items()}
    data |= dict.fromkeys(data.keys() & {"ca.crt"}, "AUTHORITY")
    labels = {name: DAY.sub("DAY", value) for name, value in (metadata.get("labels") or {}).items()}
    kept = {name: metadata.get(name) for name in ("name", "annotations")}
    managers = sorted(entries, key=lambda entry: str(entry["manager"]))  # by time, which is not the same, and by name
    described = {"labels": labels, "data": data, "managers": managers}
    return {**{name: obj.get(name) for name in ("kind", "type", "code")}, **kept, **described}


def annotations_of(log: Path, number: int) -> Obj:
    """Return the annotations of the request of a step in the audit log, once it is there, but for those about slow
    requests. Raises TimeoutError."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        for line in log.read_text().splitlines() if log.exists() else ():
            if f'"step-{number}"' in line and '"ResponseComplete"' in line and line.endswith("}"):
                annotations: Obj = json.loads(line).get("annotations") or {}
                return {name: text for name, text in annotations.items() if not name.startswith(LATENCY)}
        time.sleep(0.02)
    raise TimeoutError(f"step {number} is not in {log}")


def rewrite(client: Server, folder: str, step: Write, words: Obj) -> None:
    """Change a file, and wait until the server has read it."""
    before = counted(client, Metrics(step.metrics))
    file = Path(folder) / f"{step.name}.new"
    file.write_text(filled(step.content, words))
    file.replace(Path(folder) / step.name)  # no server sees half of it
    until = time.monotonic() + PATIENCE
    while counted(client, Metrics(step.metrics)) == before:
        if time.monotonic() > until:
            raise TimeoutError(f"{step.name} was not read again")
        time.sleep(0.02)


def counted(client: Server, step: Metrics) -> list[str]:
    """Return the lines of metrics, but for those that are times or depend on them."""
    answer = client.exchange("GET", "/metrics", {"Authorization": f"Bearer {ADMIN}"})
    lines = [line for line in answer.body.decode().splitlines() if step.prefix in line]
    return sorted(line for line in lines if "_bucket" not in line and "_sum" not in line)


def without_time(line: str) -> str:
    """Return a line of metrics without hashes of what differs between two runs, and without the time."""
    return re.sub(r"(_seconds\{.*\}) .*", r"\1 TIME", re.sub(r"sha256:[0-9a-f]{64}", "HASH", line))


def call_of(call: Obj) -> Obj:
    """Return a call of the webhook with the headers that are compared."""
    headers, acting = call["headers"], [name for name in call["headers"] if name.startswith("impersonate-")]
    kept = {**call, "headers": {name: headers.get(name) for name in (*SENT, *sorted(acting))}}
    if isinstance(call["body"], dict) and call["body"].get("kind") == "EventList":  # `compare audit` compares events
        kept["body"] = [[event["stage"], event["verb"], event["requestURI"]] for event in call["body"]["items"]]
    return kept


def presented(client: Server, step: Ask, folder: str) -> Answer:
    """Return the answer to the request of a step over a connection of its own, on which a certificate is shown."""
    context = ssl._create_unverified_context()
    if step.certificate:
        context.load_cert_chain(Path(folder) / f"{step.certificate}.pem")
    connection = HTTPSConnection(urlsplit(client.url).netloc, context=context, timeout=PATIENCE)
    headers, body = sent(step)
    connection.putrequest(step.method, step.path)
    for name, value in (*headers.items(), ("Content-Length", str(len(body or b""))), *step.more):
        connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    with closing(connection):
        return Answer(answer.status, answer.getheaders(), answer.read())


def asked(client: Server, step: Ask) -> Answer:
    """Return the answer to the request of a step."""
    headers, body = sent(step)
    return client.exchange(step.method, step.path, headers, body)


def sent(step: Ask) -> tuple[Obj, bytes | None]:
    """Return the headers and the body of the request of a step."""
    token = f"Bearer {step.token}" if step.token else ""
    headers: Obj = {"Accept": "application/json", "User-Agent": "stories", "Authorization": token, **step.headers}
    body = None
    if step.body is not None:
        headers["Content-Type"], body = step.media, json.dumps(step.body).encode()
    return headers, body


def compared(answer: Answer) -> Obj:
    """Return the part of an answer that servers must agree on: what they store is compared elsewhere."""
    text = answer.body.decode()
    body: Any = text
    if text and any("json" in value for value in answer.all("content-type")):
        body = json.loads(text)
        if answer.status < 300 and not str(body.get("kind")).endswith("Review"):
            body = body.get("kind")
    warnings = {"warnings": answer.all("warning")} if answer.all("warning") else {}
    return {"status": answer.status, "type": answer.all("content-type"), "body": body, **warnings}


def hidden(line: Obj, words: Obj) -> Obj:
    """Return a line without what differs between two runs."""
    text = json.dumps(line)
    for name in ("hook", "refused", "dir", "ca"):
        text = text.replace(words[name], name.upper())
    line = json.loads(mask(CREDENTIAL.sub("SHA256=HASH", CLIENT.sub("CLIENT->", text))))
    if isinstance(line["body"], dict):
        (line["body"].get("metadata") or {}).pop("managedFields", None)
    return line


def add_arguments(parser: argparse.ArgumentParser, stories: Iterable[str] = STORIES) -> None:
    parser.add_argument("--program", required=True, type=Path, help="kube-apiserver of the release")
    parser.add_argument("--etcd", required=True, type=Path, help="its etcd")
    parser.add_argument("--release", required=True, metavar="VERSION", help="the release, such as 1.37")
    parser.add_argument("--story", action="append", choices=stories, help="only this story; may be repeated")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write what the real server did there")


def run(options: argparse.Namespace) -> int:
    names = [name for name in options.story or STORIES if options.release in STORIES[name].releases]
    return compare_stories(options, {name: partial(played, STORIES[name]) for name in names})


def compare_stories(options: argparse.Namespace, stories: Mapping[str, Callable[[Real | None, str], list[Obj]]]) -> int:
    """Play stories with both servers, print what differs, and return the exit status."""
    tally, recorded = Tally(), []
    for name, play in stories.items():
        both = play(Real(options.program, options.etcd), options.release), play(None, options.release)
        recorded += [{"story": name, **line} for line in both[0]]
        for left, right in zip(*both, strict=True):
            lines = list(differences(left, right, ""))
            tally.count(lines)
            if lines:
                print_difference(f"{name}: {left['request']}", lines)
    if options.save:
        options.save.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in recorded))
    print(f"{tally.total} requests: {tally}")
    return tally.exit_status
