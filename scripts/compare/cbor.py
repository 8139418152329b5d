"""Compare how two API servers read and write CBOR.

    python -m scripts.compare cbor https://127.0.0.1:6443 https://127.0.0.1:8001 --token T [--save FILE]

Both are started with `--feature-gates CBORServingAndStorage=true`. Sends the requests of `cases/cbor_requests.py`, and
compares status, media type, warnings and body of the answers, these in diagnostic notation with the pairs of maps in
order, since kube-apiserver shuffles them; values that a server generates are masked. Differences are printed, then how
many exchanges agree. With `--save FILE` the exchanges of the left server are written there, which
`tests/apiserver/server/cbor` replays. The exit status is 1 if there are differences.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

from scripts.common.comparing import Answer, Obj, Server, Tally, add_saving_arguments, end_namespace, require_servers
from scripts.compare.cases.cbor_requests import CRDS, FLOWS, GROUP, NS, Ask, item
from understudy.machinery.releases.version import V1_37
from understudy.machinery.serializer.cbor.items import MAP, Item, diagnose, parse
from understudy.machinery.serializer.json import DecodeError

PATIENCE = 60.0  # seconds until custom resources are served
_BEHIND = re.compile(r"extraneous data starting at index (\d+)$")
_BLUEPRINT = re.compile(r"(initial-events-list-blueprint': ')([\w+/=]+)")
_MASKS = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"""(resourceVersion["']: ?["'])\d+"""), r"\1VERSION"),
    (re.compile(r"""(continue["']: ?["'])[\w-]{20,}"""), r"\1TOKEN"),
)


def exchanges(server: Server) -> Iterator[Obj]:
    """Yield the requests, as texts, with what is compared of their answers."""
    run = f"cbor-{secrets.token_hex(4)}"
    server.must("POST", "/api/v1/namespaces", {"metadata": {"name": run}})
    try:
        for flow in FLOWS:
            for number, ask in enumerate(flow()):
                body = b"" if ask.body is None else ask.body if isinstance(ask.body, bytes) else item(ask.body)
                yield {
                    "request": f"{flow.__name__} {number}: {ask.method} {ask.path}",
                    "sent": {"content-type": ask.media, "accept": ask.accept, "body": body[:200].hex()},
                    "answer": _answer(server, ask, run),
                }
    finally:
        server.call("DELETE", f"{CRDS}/things.{run}.example.com")
        end_namespace(server, run)


def _filled(ask: Ask, run: str) -> tuple[str, bytes | None]:
    """Return path and body of a request with the names of a run."""

    def named(text: str) -> str:
        return text.replace(GROUP, f"{run}.example.com").replace(NS, run)

    body = ask.body
    if body is None:
        return named(ask.path), None
    if not isinstance(body, bytes):
        body = item(_renamed(body, run))
    return named(ask.path), body


def _renamed(value: object, run: str) -> object:
    if isinstance(value, str):
        return value.replace(GROUP, f"{run}.example.com")
    if isinstance(value, dict):
        return {_renamed(key, run): _renamed(child, run) for key, child in value.items()}
    return [_renamed(child, run) for child in value] if isinstance(value, list) else value


def _answer(server: Server, ask: Ask, run: str) -> Obj:
    """Return the parts of an answer that are compared."""
    end = time.monotonic() + PATIENCE
    while True:
        answer = _exchange(server, ask, run)
        if answer.status == (ask.until or answer.status):
            break
        if time.monotonic() > end:
            raise SystemExit(f"{server.url}: {ask.path}: {answer.status}, not {ask.until}")
        time.sleep(0.02)
    text = "" if ask.brief else _masked(_text(answer), run)
    media = [_masked(media, run) for media in answer.all("content-type")]
    return {"status": answer.status, "type": media, "warnings": answer.all("warning"), "body": text}


def _exchange(server: Server, ask: Ask, run: str) -> Answer:
    path, body = _filled(ask, run)
    headers = {"Accept": ask.accept, "User-Agent": "compare", "Authorization": f"Bearer {server.token}"}
    if body is not None:
        headers["Content-Type"] = ask.media
    if not ask.events:
        return server.exchange(ask.method, path, headers, body)
    connection = server.connect()
    try:
        connection.request(ask.method, path, None, headers)
        answer = connection.getresponse()
        got = b""
        while len(_items(got)) < ask.events and (more := answer.read1()):
            got += more
        return Answer(answer.status, answer.getheaders(), got)
    finally:
        connection.close()


def _text(answer: Answer) -> str:
    """Return the body of an answer as text: CBOR in diagnostic notation, one line for each item."""
    if not any("cbor" in media for media in answer.all("content-type")):
        return answer.body.decode()
    return "\n".join(diagnose(_in_order(of)) for of in _items(answer.body))


def _items(body: bytes) -> list[Item]:
    """Return the complete items of a sequence."""
    items = []
    while body:
        size = len(body)
        try:
            parse(body, V1_37)
        except DecodeError as error:
            if not (behind := _BEHIND.search(str(error))):
                break
            size = int(behind[1])
        items.append(parse(body[:size], V1_37))
        body = body[size:]
    return items


def _blueprint(text: str) -> str:
    """Return the empty list that a bookmark has in base64, in diagnostic notation."""
    return "\n".join(diagnose(_in_order(of)) for of in _items(base64.b64decode(text)))


def _in_order(of: Item) -> Item:
    """Return an item with the pairs of its maps in the order of their keys."""
    value = of.value
    if of.kind == MAP:
        pairs = [(_in_order(key), _in_order(child)) for key, child in value]
        value = sorted(pairs, key=lambda pair: diagnose(pair[0]))
    elif isinstance(value, list):
        value = [_in_order(child) for child in value]
    return Item(of.kind, value, of.tags, open_=of.open)


def _masked(text: str, run: str) -> str:
    text = _BLUEPRINT.sub(lambda match: f"{match[1]}{_blueprint(match[2])}", text)
    text = text.replace(f"{run}.example.com", GROUP).replace(run, NS)
    for pattern, word in _MASKS:
        text = pattern.sub(word, text)
    return text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_saving_arguments(parser)


def run(options: argparse.Namespace) -> int:
    servers, tally = (Server(options.left, options.token), Server(options.right, options.token)), Tally()
    require_servers(*servers)
    left, right = (list(exchanges(server)) for server in servers)
    for one, other in zip(left, right, strict=True):
        tally.compare(one["request"], one["answer"], other["answer"])
    if options.save:
        Path(options.save).write_text("".join(f"{json.dumps(exchange)}\n" for exchange in left))
    print(f"{tally.total} exchanges: {tally}")
    return tally.exit_status
