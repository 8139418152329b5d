"""Ask a server for parts of its OpenAPI documents, and on conditions.

    python -m tests.apiserver.endpoints.openapi.document_parts URL TOKEN > RELEASE.jsonl

Documents differ in their descriptions: their size, ETag and time are words in what is printed, and of a body it says
which bytes of the document it has.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.http import Response, send

V3, V2, INDEX = "/openapi/v3/apis/apps/v1", "/openapi/v2", "/openapi/v3"
PAST, FUTURE = "Sat, 01 Jan 2000 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT"
# Headers of requests, with words: ETAG and SIZE of the document, and sums such as SIZE-10.
CONDITIONS: tuple[dict[str, str], ...] = (
    {},
    *({"Range": f"bytes={each}"} for each in ("0-9", "5-", "-7", "0-0", "0-SIZE", "SIZE-1-", "SIZE-", "SIZE-SIZE")),
    *({"Range": f"bytes={each}"} for each in ("0-1,4-5", "0-1, ,4-", "0-1,SIZE-", "-SIZE,-SIZE", "0-,0-", " 0-9 ", "")),
    *(
        {"Range": f"bytes={each}"}
        for each in ("9-0", "x-9", "0-x", "-", "--5", "-x", "+1-+3", "-0", "0", "0-9,x", "-1-2")
    ),
    *({"Range": each} for each in ("items=0-9", "bytes 0-9", "Bytes=0-9", f"bytes={'9' * 20}-", "bytes=0-9;")),
    *(
        {"If-Match": each}
        for each in ("ETAG", '"other"', '"other", ETAG', "*", "W/ETAG", "other", ",ETAG", '"a b",ETAG')
    ),
    *(
        {"If-None-Match": each}
        for each in ("ETAG", '"other"', '"other", W/ETAG', "*", "W/ETAG", "other, *", '"', " ETAG")
    ),
    *({"If-Modified-Since": each} for each in (PAST, FUTURE, "yesterday", "Friday, 01-Jan-60 00:00:00 GMT")),
    {"If-Modified-Since": "Fri Jan  1 00:00:00 2100"},
    *({"If-Unmodified-Since": each} for each in (PAST, FUTURE, "yesterday")),
    {"If-Match": "ETAG", "If-Unmodified-Since": PAST},
    {"If-None-Match": '"other"', "If-Modified-Since": FUTURE},
    *(
        {"If-Range": each, "Range": "bytes=0-9"}
        for each in ("ETAG", '"other"', "W/ETAG", PAST, FUTURE, "TIME", "other")
    ),
    {"If-Range": "ETAG"},
    {"If-None-Match": "ETAG", "Range": "bytes=0-9"},
    {"Accept-Encoding": "gzip", "Range": "bytes=0-9"},
)
METHODS = (
    ("GET", CONDITIONS),
    ("HEAD", CONDITIONS[:4]),
    ("POST", ({}, *({each: "ETAG"} for each in ("If-None-Match",)))),
)
OTHERS = {"date", "audit-id", "x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid", "expires"}
HINTS: tuple[dict[str, str], ...] = (
    {},
    {"Range": "bytes=0-9"},
    {"If-None-Match": "ETAG"},
    {"If-Match": '"other"'},
    {"Range": "bytes=x"},
)
Send = Callable[[str, str, Mapping[str, str]], Response]


def exchanges(ask: Send) -> Iterator[dict[str, Any]]:
    """Yield requests and their answers."""
    for path in (V3, V2):
        whole = ask("GET", path, {})
        for method, conditions in METHODS:
            for headers in conditions:
                yield exchange(ask, whole, method, path, headers)
    url = json.loads(ask("GET", INDEX, {}).body)["paths"]["apis/apps/v1"]["serverRelativeURL"]
    whole = ask("GET", url, {})
    for headers in HINTS:
        yield {**exchange(ask, whole, "GET", url, headers), "path": "URL"}
    for headers in ({}, {"Range": "bytes=0-9"}, {"If-None-Match": "*"}):
        answer = ask("GET", INDEX, headers)
        names = sorted(name for name in answer.headers if name.lower() not in OTHERS)
        yield {"method": "GET", "path": INDEX, "headers": headers, "status": answer.status, "answered": names}


def exchange(ask: Send, whole: Response, method: str, path: str, headers: Mapping[str, str]) -> dict[str, Any]:
    """Send one request; return it with its answer."""
    size, tag, time = len(whole.body), whole.headers["ETag"], whole.headers.get("Last-Modified", "")
    words = {"ETAG": tag, "SIZE-1": str(size - 1), "SIZE": str(size), "TIME": time}
    asked = dict(headers)
    for word, value in words.items():
        asked = {name: text.replace(word, value) for name, text in asked.items()}
    answer = ask(method, path, asked)

    def in_words(text: str) -> str:
        text = re.sub(r"\d+", lambda number: relative(int(number[0]), size), text.replace(tag, "ETAG"))
        return re.sub("boundary=.*", "boundary=BOUNDARY", text)

    named = {name.title(): text for name, text in answer.headers.items() if name.lower() not in OTHERS}
    told = {name: "TIME" if time and text == time else in_words(text) for name, text in named.items()}
    if told.get("Content-Encoding") == "gzip":
        told.pop("Content-Length", None)
    sent = {
        "method": method,
        "path": path,
        "headers": headers,
        "status": answer.status,
        "answered": dict(sorted(told.items())),
    }
    return {**sent, "body": body(answer, whole.body)}


def relative(number: int, size: int) -> str:
    """Return a number in relation to the size of a document, if it is near."""
    return f"SIZE{number - size:+}".replace("+0", "") if abs(number - size) < 1000 else str(number)


def body(answer: Response, whole: bytes) -> str:
    """Describe the body of an answer by the bytes of the document that it has."""
    if answer.body == whole:
        return "all"
    if answer.headers.get("Content-Encoding") == "gzip":
        return "gzip"
    if answer.status != 206 or not answer.body:
        return answer.body.decode()
    boundary = (answer.headers.get_param("boundary") if "multipart" in answer.headers["Content-Type"] else "") or ""
    parts = re.split(rf"\r?\n?--{boundary}(?:--)?\r\n".encode(), answer.body)[1:-1] if boundary else [answer.body]
    words = []
    for part in parts:
        head, _, content = part.partition(b"\r\n\r\n") if boundary else (b"", b"", part)
        stated = head.decode() if boundary else answer.headers["Content-Range"]
        first, last = map(int, re.search(r"bytes (\d+)-(\d+)/", stated).groups())  # type: ignore[union-attr]
        is_that = content == whole[first : last + 1]
        words.append(
            f"{re.sub(r'Content-Range: .*', 'Content-Range', head.decode())!r} {'as stated' if is_that else 'other'}"
        )
    return ", ".join(words)


def ask_all(url: str, token: str = "") -> Iterator[dict[str, Any]]:
    """Yield the exchanges with a server."""

    def ask_once(method: str, path: str, headers: Mapping[str, str]) -> Response:
        return send(url, method, path, headers={**({"Authorization": f"Bearer {token}"} if token else {}), **headers})

    return exchanges(ask_once)


if __name__ == "__main__":
    for each in ask_all(*sys.argv[1:]):
        print(json.dumps(each))
