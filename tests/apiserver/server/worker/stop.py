"""What holds up a request at a known place."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

SECONDS = 30.0  # that a test waits for what must happen


class Stop:
    """Holds up the first call of a function until it is released."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.reached, self.released = threading.Event(), threading.Event()
        self.calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        if self.calls == 1:
            self.reached.set()
            assert self.released.wait(SECONDS), "nobody was answered meanwhile"
        return self._function(*args, **kwargs)
