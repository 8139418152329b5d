"""Deals each flow a few of the queues, so that a busy flow shares few with another one (shuffle sharding).

https://kubernetes.io/docs/concepts/cluster-administration/flow-control/#prioritylevelconfiguration
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from understudy.machinery.util.caches import SHORT_KEPT, cache_results

_HANDS = 4096  # flows with a remembered hand


def hand_of(schema: str, distinguisher: str, queues: int, size: int) -> Sequence[int]:
    """Return the numbers of the queues of a flow, `size` of them, which its name decides (`hashFlowID`, `Dealer`)."""
    is_short = len(schema) + len(distinguisher) <= SHORT_KEPT
    return (_kept_hand if is_short else _dealt)(schema, distinguisher, queues, size)


def _dealt(schema: str, distinguisher: str, queues: int, size: int) -> Sequence[int]:
    """Deal a hand: each digit of the hash, in a base that shrinks with the deck, picks one of the cards left."""
    digest = hashlib.sha256(f"{schema}\0{distinguisher}".encode("utf-8", "surrogateescape")).digest()
    rest, deck = int.from_bytes(digest[:8], "little"), list(range(queues))
    hand = []
    for _ in range(size):
        rest, card = divmod(rest, len(deck))
        hand.append(deck.pop(card))
    return hand


_kept_hand = cache_results(_HANDS, _dealt)
