"""Headers of answers, as any client reads them."""

from __future__ import annotations

from hpack import Decoder

from understudy.apiserver.server.http2.encoder import PlainEncoder, _known_begin


def test_headers_are_read_by_clients() -> None:
    """Each block is read whatever came before it; values may be longer than a byte can say."""
    encoder, decoder = PlainEncoder(), Decoder()
    blocks = [
        [(b":status", b"200"), (b"audit-id", b"a" * 36)],
        [(b":status", b"404"), (b"audit-id", b"b" * 126)],
        [(b":status", b"200"), (b"warning", b"c" * 127), (b"warning", b"d" * 20_000), (b"e", b"")],
    ]
    assert [list(decoder.decode(encoder.encode(block), raw=True)) for block in blocks] == blocks


def test_long_names_are_not_kept() -> None:
    """Names of headers that servers behind this one choose leave nothing behind if they are long."""
    _known_begin.cache_clear()
    encoder, decoder = PlainEncoder(), Decoder()
    block = [(b"a" * 64, b"1"), *((b"x" * 65 + b"%d" % number, b"2") for number in range(9))]
    assert list(decoder.decode(encoder.encode(block), raw=True)) == block
    assert _known_begin.cache_info().currsize == 1
