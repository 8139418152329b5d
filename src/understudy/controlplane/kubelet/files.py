"""Replaces the files in which a kubelet keeps what it must know when it is started again."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(file: Path, content: bytes) -> None:
    """Replace a file in one step, so that a kubelet that is killed meanwhile leaves the old one or the new one."""
    part = file.with_name(f".{file.name}")
    part.write_bytes(content)
    os.replace(part, file)
