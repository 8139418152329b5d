"""Watch caches of custom resources that a webhook converts: up to which write their objects have been converted.

The real server converts an object as soon as it is written, and answers lists and watches from what it has converted
(k8s.io/apiserver/pkg/storage/cacher). While the webhook fails, that is a little old; after a while there is no cache.
"""

from __future__ import annotations

from collections.abc import Callable

from understudy.machinery import errors
from understudy.machinery.releases.version import V1_31, V1_33, V1_37, ByRelease, Version
from understudy.machinery.types import GroupVersionKind

# A webhook that fails is asked again, until it has failed for so long (`MaxInternalErrorRetryDuration`).
ASKED_AGAIN, GIVEN_UP = 0.2, 30.0  # seconds
_SAYS_WHY = ByRelease({V1_33: True, V1_31: False})
_NAMES_NO_KIND = ByRelease({V1_37: True, V1_31: False})
_RETRY_AFTER = 1  # seconds


class WatchCache:
    """The watch cache of one version of a definition.

    revision  revision of the store up to which everything is converted, 0 before anything is
    problem   text of the error for which the cache cannot be filled, "" if it can
    readers   are called when either has changed
    """

    def __init__(self, kind: GroupVersionKind, version: Version) -> None:
        self.revision = 0
        self.problem = ""
        self.readers: set[Callable[[], None]] = set()
        self._kind = kind
        self._version = version

    def advance(self, revision: int) -> None:
        """Let readers know that everything up to a revision is converted."""
        self.revision, self.problem = revision, ""
        self._wake()

    def fail(self, problem: str) -> None:
        """Let readers know that there is no cache."""
        self.problem = problem
        self._wake()

    def _wake(self) -> None:
        for wake in tuple(self.readers):  # threads may add some
            wake()

    def check_ready(self) -> None:
        """Raise 429 if the cache cannot be filled."""
        if not self.problem:
            return
        text = "storage is (re)initializing"
        if _SAYS_WHY[self._version]:
            listed = "<unspecified>" if _NAMES_NO_KIND[self._version] else self._kind.text
            text += f": failed to list {listed}: {self.problem}"
        raise errors.too_many_requests(text, _RETRY_AFTER)
