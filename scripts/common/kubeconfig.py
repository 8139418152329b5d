"""Kubeconfigs for the programs of Kubernetes that scripts start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_kubeconfig(file: Path, url: str, token: str = "", ca: str = "") -> Path:
    """Write a kubeconfig (mode 0600) of a server; return the file. Its certificate is checked if `ca` names a file."""
    cluster: dict[str, Any] = {"server": url}
    if ca:
        cluster["certificate-authority"] = ca
    elif url.startswith("https:"):
        cluster["insecure-skip-tls-verify"] = True
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": {"token": token} if token else {}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "current-context": "it",
    }
    file.touch(mode=0o600)
    file.write_text(json.dumps(content))
    return file
