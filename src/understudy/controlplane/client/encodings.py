"""How objects travel between a client and its server: as JSON, or as Kubernetes protobuf.

The parameters for drivers in claims and classes are raw JSON (`RawExtension`), which the server stores byte for byte.
In an answer of JSON they have lost their spaces, and `<` is `\\u003c`: an object that is written back like this has
changed, and the spec of a claim must not. Protobuf has the stored bytes, so components of Kubernetes, which speak
nothing else, write what they have read. Here they are a `Raw` value, a dict that keeps its bytes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from functools import lru_cache
from typing import Protocol

import orjson

from understudy.apiserver.endpoints.negotiation import JSON, PROTOBUF
from understudy.controlplane.client.resources import Resource
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.releases.version import Version
from understudy.machinery.serializer import protobuf
from understudy.machinery.serializer.protobuf_wire import MAGIC, read_watch_frame
from understudy.machinery.typeinfo.go_types import Schemas, Struct
from understudy.machinery.types import Obj, split_api_version

RECENT, LONGEST_RECENT = 256, 64 * 1024  # bodies whose objects are remembered, and the length of one


class Encoding(Protocol):
    """An encoding of objects.

    media_type    of the objects that are sent
    accept        media types of answers
    accept_watch  media types of watches
    """

    media_type: str
    accept: str
    accept_watch: str

    def encode(self, obj: Obj) -> bytes:
        """Return the body of an object with its kind."""

    def decode(self, body: bytes) -> Obj:
        """Return the object of an answer. Raises ValueError."""

    def events(self, chunks: AsyncIterator[bytes], content_type: str) -> AsyncGenerator[Obj, None]:
        """Yield the events of a watch from the bytes of its answer, whose content type may have no parameters."""


class JSONEncoding:
    """Objects as JSON."""

    media_type = accept = accept_watch = JSON

    def encode(self, obj: Obj) -> bytes:
        return encode(obj)

    def decode(self, body: bytes) -> Obj:
        obj: Obj = orjson.loads(body)
        return obj

    async def events(self, chunks: AsyncIterator[bytes], content_type: str) -> AsyncGenerator[Obj, None]:
        """Yield the events of a watch, each of which is a line, however long."""
        rest = b""
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line:
                    yield orjson.loads(line)


class ProtobufEncoding(JSONEncoding):
    """Objects as protobuf, with the types of a release. A server may answer with JSON all the same.

    Whoever changes an object gets it as an answer and again from each watch, so the objects of the last bodies are
    remembered, and shared: they are not edited in place.
    """

    media_type = PROTOBUF
    accept = f"{PROTOBUF},{JSON}"
    accept_watch = f"{PROTOBUF};stream=watch,{JSON}"

    def __init__(self, version: Version) -> None:
        self._schemas = Schemas.of(version)
        self._recent = lru_cache(maxsize=RECENT)(self._decode)

    def encode(self, obj: Obj) -> bytes:
        return protobuf.encode(obj, self._type(obj["apiVersion"], obj["kind"]))

    def decode(self, body: bytes) -> Obj:
        """Return the object of an answer, as its JSON would be but for raw parts. Raises ValueError."""
        if not body.startswith(MAGIC):
            return super().decode(body)
        return self._recent(body) if len(body) <= LONGEST_RECENT else self._decode(body)

    def _decode(self, body: bytes) -> Obj:
        obj = protobuf.decode(body, self._type(*protobuf.read_protobuf_type_meta(body)))
        if obj["kind"].endswith("List"):
            obj["items"] = obj["items"] or []  # protobuf has no empty lists
        return obj

    async def events(self, chunks: AsyncIterator[bytes], content_type: str) -> AsyncGenerator[Obj, None]:
        """Yield the events of a watch, each of which is a frame with its length in front."""
        if content_type != PROTOBUF:
            async for event in super().events(chunks, content_type):
                yield event
            return
        data = b""
        async for chunk in chunks:
            data += chunk
            at = 0
            while (frame := read_watch_frame(data, at)) is not None:
                kind, body, at = frame
                yield {"type": kind, "object": self.decode(body)}
            data = data[at:]

    def _type(self, api_version: str, kind: str) -> Struct:
        """Return the type of a kind. Raises ValueError for one that the release does not know."""
        try:
            return self._schemas.kind(*split_api_version(api_version), kind)
        except KeyError:
            raise ValueError(f'{self._schemas.version} knows no kind "{kind}" in version "{api_version}"') from None


JSON_ENCODING = JSONEncoding()


def encoding_of(resource: Resource) -> Encoding:
    """Return the encoding in which a resource's objects are read and written."""
    version = resource.protobuf_release
    return JSON_ENCODING if version is None else _protobuf_encoding(version)


@lru_cache
def _protobuf_encoding(version: Version) -> ProtobufEncoding:
    return ProtobufEncoding(version)
