"""The rules of a connection, which are `h2`'s, with kube-apiserver's settings."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings
from h2.stream import StreamState
from hpack import Decoder, HeaderTuple

from understudy.apiserver.server.http2.encoder import PlainEncoder
from understudy.apiserver.server.http2.frames import settings_frame
from understudy.apiserver.server.http2.head import MAX_HEADERS
from understudy.machinery.releases.version import V1_31, V1_36, ByRelease, Version

BUFFER = 256 * 1024  # bytes of a frame, and of a body that may wait to be read: kube-apiserver's settings
LONGEST_BLOCK = 2 * MAX_HEADERS  # bytes of compressed headers that are read, to be refused
_LARGE = 4 * 1024  # bytes of compressed headers that are read beside the event loop: each may be a header, of 3 µs
_UNFOLDING = 64 * 1024  # bytes of compressed headers that may stand for any size: they are as many headers at the most
_FIRST_WINDOW = 65535  # bytes that a client may send at first on a connection (RFC 9113, section 6.9.2)
_RECEIVING = (StreamState.OPEN, StreamState.HALF_CLOSED_LOCAL)  # the states of a stream whose body has no end yet
_NO_PRIORITIES = 9  # the setting that streams have no priorities (RFC 9218, section 2.1)
_KNOWS_NO_PRIORITIES = ByRelease({V1_36: [(_NO_PRIORITIES, 1)], V1_31: []})


class LargeBlockError(Exception):
    """Headers that are to be read beside the event loop; then an empty HEADERS frame stands for theirs."""

    def __init__(self, block: bytes) -> None:
        super().__init__("large headers")
        self.block = block


class PatientDecoder(Decoder):
    """Reads compressed headers; large ones only when it is told so."""

    def __init__(self) -> None:
        super().__init__(LONGEST_BLOCK)
        self._read: Iterable[HeaderTuple] | None = None

    def decode(self, data: bytes, raw: bool = False) -> Iterable[HeaderTuple]:
        """Return headers, or those that `decode_large` has read. Raises LargeBlockError, HPACKError."""
        if self._read is not None:
            read, self._read = self._read, None
            return read
        if len(data) > _LARGE:
            raise LargeBlockError(bytes(data))
        self.max_header_list_size = sys.maxsize
        return super().decode(data, raw)

    def decode_large(self, block: bytes) -> None:
        """Read headers, in any thread, for the next call of `decode`. Raises HPACKError."""
        self.max_header_list_size = sys.maxsize if len(block) <= _UNFOLDING else LONGEST_BLOCK
        self._read = super().decode(block, raw=True)


class Rules(H2Connection):
    """The rules of a server's connection. Go refuses streams beyond the limit, and answers requests that `h2` would not
    read.

    greeting  the first frame: `h2` would send settings that Go does not
    """

    MAX_CLOSED_STREAMS = 4096  # that are remembered

    def __init__(self, most_streams: int, version: Version) -> None:
        super().__init__(
            H2Configuration(
                client_side=False,
                header_encoding=None,
                validate_inbound_headers=False,
                normalize_inbound_headers=False,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_FRAME_SIZE: BUFFER,
                SettingCodes.MAX_CONCURRENT_STREAMS: most_streams,
                SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADERS,
                SettingCodes.INITIAL_WINDOW_SIZE: BUFFER,
            },
        )
        self.max_inbound_frame_size = BUFFER
        self.decoder: PatientDecoder = PatientDecoder()
        self.encoder = PlainEncoder()
        self.initiate_connection()
        self.clear_outbound_data_buffer()
        self.greeting = settings_frame(
            [
                (SettingCodes.MAX_FRAME_SIZE, BUFFER),
                (SettingCodes.MAX_CONCURRENT_STREAMS, most_streams),
                (SettingCodes.MAX_HEADER_LIST_SIZE, MAX_HEADERS),
                (SettingCodes.HEADER_TABLE_SIZE, self.local_settings.header_table_size),
                (SettingCodes.INITIAL_WINDOW_SIZE, BUFFER),
                *_KNOWS_NO_PRIORITIES[version],
            ]
        )
        self.increment_flow_control_window(BUFFER * most_streams - _FIRST_WINDOW)

    @property
    def open_inbound_streams(self) -> int:
        """Forget streams that have ended, and return 0: there is no limit here."""
        _ = super().open_inbound_streams
        return 0

    def is_receiving(self, number: int) -> bool:
        """Report whether more of a body may come on a stream."""
        stream = self.streams.get(number)
        return stream is not None and stream.state_machine.state in _RECEIVING
