"""Caches of what clients send: they keep few and short texts, and can all be emptied at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import _lru_cache_wrapper, lru_cache, update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakValueDictionary

P = ParamSpec("P")
K = TypeVar("K")
T = TypeVar("T")
LONGEST_KEPT = 4096  # characters of a text that caches keep; ordinary headers, paths and parameters are shorter
SHORT_KEPT = 256  # characters of a text that caches of many texts keep
_caches: WeakValueDictionary[int, Any] = WeakValueDictionary()  # those that `forget_results` empties, by their id


def cache_results(maxsize: int, function: Callable[..., T], *, typed: bool = False) -> _lru_cache_wrapper[T]:
    """Return a function that keeps its last `maxsize` results, until `forget_results` empties all such caches.

    For caches that objects, users and requests fill as long as a server runs. The arguments are hashable; `typed` is
    that of `functools.lru_cache`.
    """
    cached = lru_cache(maxsize, typed)(function)
    _caches[id(cached)] = cached
    return cached


class Results(dict[K, T]):
    """A dict of results that may be forgotten at any time: `forget_results` empties it."""

    def __init__(self) -> None:
        _caches[id(self)] = self

    cache_clear = dict.clear


def forget_results() -> None:
    """Empty all caches of requests, in the thread of the event loop.

    The little that they keep lies between all that came and went with it; while it is there, Python's allocator can
    give nothing around it back to the system.
    """
    for cache in tuple(_caches.values()):
        cache.cache_clear()


def are_short(texts: Iterable[str]) -> bool:
    """Report whether texts that make one key are short enough together for a cache of many keys."""
    return sum(map(len, texts)) <= SHORT_KEPT


def cache_short_texts(maxsize: int) -> Callable[[Callable[Concatenate[str, P], T]], Callable[Concatenate[str, P], T]]:
    """Return a decorator that keeps the last `maxsize` results of a function, fewer for longer first arguments.

    For texts that clients send, which would take any amount of memory otherwise: `maxsize` texts of up to SHORT_KEPT
    characters are kept, a sixteenth of that up to LONGEST_KEPT, and none above. The other arguments are hashable, and
    short.
    """

    def decorate(function: Callable[Concatenate[str, P], T]) -> Callable[Concatenate[str, P], T]:
        short = cache_results(maxsize, function)
        long = cache_results(max(maxsize * SHORT_KEPT // LONGEST_KEPT, 1), function)

        def call(text: str, /, *args: P.args, **kwargs: P.kwargs) -> T:
            length = len(text)
            if length <= SHORT_KEPT:
                return short(text, *args, **kwargs)  # type: ignore[arg-type]
            return (long if length <= LONGEST_KEPT else function)(text, *args, **kwargs)  # type: ignore[arg-type]

        update_wrapper(call, function)
        return call

    return decorate
