"""Codecs: how the objects of a kind are read and written in one API version.

Built-in kinds are Go structs (`go_codec`); custom resources follow the schema of their definition
(`extensions.structural_codec`). Handlers, registry and watches know no more of either than this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from understudy.machinery.patch.apply.object_type import ObjectType
from understudy.machinery.serializer.json import DecodeError
from understudy.machinery.typeinfo.go_types import Struct
from understudy.machinery.types import GroupVersionKind, NamedTuple, Obj


class Body(Protocol):
    """The body of a request, in one of the media types.

    reports_unknown  whether fields that a custom resource does not have are strict errors
    """

    reports_unknown: ClassVar[bool]

    def decode(self, struct: Struct) -> tuple[Obj, list[str]]:
        """Decode the body as a Go type. Returns the object and its strict errors. Raises DecodeError."""

    def value(self) -> tuple[Any, list[str]]:
        """Return the JSON value of the body, with Go's numbers, and its strict errors. Raises DecodeError."""

    def text(self) -> str:
        """Return the body as errors quote it."""


class Sent(NamedTuple):
    """A decoded body. `gvk` is what it names as its type; parts that it leaves out are those of the path."""

    obj: Obj
    gvk: GroupVersionKind


# The error for a custom resource without an apiVersion.
NO_API_VERSION = "Object 'apiVersion' is missing in 'object has no apiVersion field'"


class MissingKindError(DecodeError):
    """A body does not name its kind, but has to."""


class Decoder(Protocol):
    """Decodes bodies to objects of one kind and version.

    kind            of the path: the one that is expected
    takes_any_kind  whether objects are filled in with any kind that they name, and errors about their fields name that
    """

    kind: GroupVersionKind
    takes_any_kind: bool

    @property
    def object_type(self) -> ObjectType:
        """Return the type of the objects for managed fields and server-side apply."""

    def sent_kind(self, api_version: str, kind: str, text: Callable[[], str]) -> GroupVersionKind:
        """Return the kind that a body names by its apiVersion and kind, "" for missing ones. Raises DecodeError.

        `text` returns the text of the body, for error messages.
        """

    def decode(self, body: Body, sent: GroupVersionKind) -> tuple[Obj, list[str]]:
        """Decode a body as the kind that it names. Returns the object and its strict errors. Raises DecodeError."""

    def in_order(self, obj: Obj) -> Obj:
        """Return an object with its fields in the order in which they are written."""

    def decode_patched(self, document: Any, text: Callable[[], str]) -> tuple[Sent, list[str]]:
        """Decode the document that a JSON or merge patch has made of an object, whose text `text` returns.

        Returns the object and its strict errors. Raises DecodeError.
        """


class Codec(Decoder, Protocol):
    """Reads and writes the objects of a kind in one API version."""

    @property
    def head(self) -> bytes:
        """Return the JSON of an object up to the bytes of its fields."""

    @property
    def item_head(self) -> bytes:
        """Return the JSON of an item of a list up to the same bytes."""

    @property
    def go_type(self) -> str:
        """Return the Go type of the kind's objects inside the real server, which errors name."""

    def named(self, obj: Obj) -> Obj:
        """Return a decoded object with the kind and apiVersion that it is stored with."""

    def encode_fields(self, obj: Obj) -> bytes:
        """Return the JSON of an object after `head`."""

    def encode_message(self, obj: Obj) -> bytes:
        """Return an object as a protobuf message. Raises 406 for custom resources, which have none."""

    def encode_cbor(self, obj: Obj) -> bytes:
        """Return an object as a data item of CBOR, without the tag of a body."""

    def list_of(self, metadata: Obj, objects: list[Obj]) -> Obj:
        """Return a list of objects."""

    def around_items(self, metadata: Obj) -> tuple[bytes, bytes]:
        """Return the JSON of a list before and after its items."""

    def metadata(self, obj: Obj) -> Obj:
        """Return the metadata of an object with its fields in the order in which Go declares them."""

    def empty(self) -> Obj:
        """Return an object of which nothing is set, as bookmarks have it."""

    def empty_list(self) -> Obj:
        """Return a list of which nothing is set, as the bookmark after initial events has it."""
