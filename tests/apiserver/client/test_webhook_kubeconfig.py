"""Kubeconfigs of webhooks work, or keep a server from starting, as those of real servers of 1.32 and 1.37 do.

Each was that of ImagePolicyWebhook, whose errors begin with the name of the plugin; the two releases agree.
"""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import orjson
import pytest
import trustme

from understudy.apiserver.client.external.webhook_kubeconfig import read_webhook_kubeconfig
from understudy.machinery.types import Obj

RECORDED = Path(__file__).with_name("recorded") / "webhook_kubeconfigs.jsonl"
ROWS = [orjson.loads(line) for line in RECORDED.read_bytes().splitlines()]


@pytest.fixture(scope="module")
def keys() -> dict[str, bytes]:
    """Return certificates and keys (PEM) by the names that stand for them in kubeconfigs."""
    authority = trustme.CA()
    leaf, other = (authority.issue_cert(name) for name in "ab")
    chain = leaf.cert_chain_pems[0]
    texts = {"CA": authority.cert_pem, "CERT": chain, "KEY": leaf.private_key_pem, "OTHER": other.private_key_pem}
    return {name: text.bytes() for name, text in texts.items()}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["why"]))
def test_kubeconfigs_of_webhooks(row: Obj, keys: dict[str, bytes], tmp_path: Path) -> None:
    """The text of the error is that of client-go, and there is none where the real server starts."""
    (tmp_path / "garbage").write_text("x")
    (tmp_path / "ca").write_bytes(keys["CA"])
    text = row["kubeconfig"]
    for name, value in keys.items():
        text = text.replace(f'"${name}"', f'"{b64encode(value).decode()}"')
    (tmp_path / "k").write_text(text)
    try:
        read_webhook_kubeconfig(tmp_path / "k")
        error = ""
    except ValueError as why:
        error = str(why).replace(str(tmp_path), "$DIR")
    assert error == row["error"].partition(": [{u ")[0]
