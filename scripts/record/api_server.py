"""An API server that is recorded, and the requests that it is asked with."""

from __future__ import annotations

import json
import ssl
import urllib.request
from typing import Any


class ApiServer:
    """An API server that is recorded. Its certificate is not verified."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url.rstrip("/"), token
        self.context = ssl._create_unverified_context()

    def text(self, path: str, accept: str = "*/*") -> str:
        """Return the answer to a GET as text."""
        headers = {"Accept": accept, "Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(self.url + path, headers=headers)
        with urllib.request.urlopen(request, context=self.context, timeout=30) as answer:
            body: bytes = answer.read()
            return body.decode()

    def get(self, path: str, accept: str = "application/json") -> Any:
        """Return the answer to a GET as JSON."""
        return json.loads(self.text(path, accept))
