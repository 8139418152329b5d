"""The stories of `compare access` about front proxies, which name users in headers and show a client certificate.

In the folder of a story are two authorities, `front.crt` of proxies and `clients.crt` of users, and certificates of
both: `proxy.pem`, `stranger.pem` (a proxy whose name is not allowed) and `alice.pem`.
"""

from __future__ import annotations

from pathlib import Path

import trustme

from scripts.compare.cases.access_stories import MAPS, Ask, Story, asks

CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
FRONT_PROXY = {
    "authorization_mode": "RBAC",
    "client_ca_file": "{{dir}}/clients.crt",
    "requestheader_client_ca_file": "{{dir}}/front.crt",
    "requestheader_allowed_names": "proxy,R&D",
    "requestheader_username_headers": "X-Remote-User,X-Own-User",
    "requestheader_group_headers": "X-Remote-Group",
    "requestheader_extra_headers_prefix": "X-Remote-Extra-",
}


def write_certificates(folder: Path) -> None:
    """Write the authorities and certificates of a story."""
    holders = {"front": ("proxy", "stranger"), "clients": ("alice",)}
    for name, owners in holders.items():
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(folder / f"{name}.crt"))
        for owner in owners:
            leaf = authority.issue_cert(f"{owner}.example.com", common_name=owner, organization_name="devs")
            leaf.private_key_and_cert_chain_pem.write_to_path(str(folder / f"{owner}.pem"))


def shown(certificate: str, *headers: tuple[str, str], token: str | None = None, path: str = "") -> Ask:
    """Return a request for who has sent it, or for a path, with a certificate and headers, of which some may be there
    several times."""
    step = Ask("GET", path, token=token) if path else asks(token or "")
    return step._replace(certificate=certificate, more=headers)


_BOB = ("X-Remote-User", "bob")
_GROUPS = (("X-Remote-Group", "a"), ("X-Remote-Group", ""), ("x-remote-group", "b"))
_EXTRA = (("X-Remote-Extra-A%2fB", "1"), ("X-Remote-Extra-A%2fb", "2"), ("X-Remote-Extra-Bad%zz", "3"))
_ASKED = (
    *(shown("proxy", _BOB, *_GROUPS, *_EXTRA), shown("proxy", _BOB), shown("proxy", _BOB, token="wrong")),
    *(shown("proxy"), shown("proxy", token="admintoken"), shown("proxy", ("X-Remote-Group", "system:masters"))),
    *(shown("proxy", ("X-Remote-User", ""), ("X-Own-User", "eve")), shown("proxy", ("X-Own-User", "eve"), _BOB)),
    *(shown("alice", _BOB), shown("alice"), shown("stranger", _BOB), shown("stranger", _BOB, token="alicetoken")),
    *(
        shown("", _BOB),
        shown("", _BOB, token="alicetoken"),
        shown("proxy", ("X-Remote-User", "b"), ("X-Remote-User", "c")),
    ),
    *(shown("proxy", _BOB, ("X-Remote-Uid", "7")), shown("proxy", _BOB, ("Impersonate-User", "carol"))),
    shown("proxy", ("X-Remote-User", "root"), ("X-Remote-Group", "system:masters"), ("Impersonate-User", "carol")),
    shown("proxy", ("X-Remote-User", "root"), ("X-Remote-Group", "system:masters"), path=MAPS),
    *(shown("proxy", _BOB, path=MAPS), shown("proxy", _BOB, path="/version"), shown("stranger", _BOB, path="/version")),
)

FRONT_PROXIES: dict[str, Story] = {
    "front proxies": Story(FRONT_PROXY, _ASKED),
    "front proxies of any name": Story({**FRONT_PROXY, "requestheader_allowed_names": ""}, _ASKED),
    "front proxies with uids": Story(
        {**FRONT_PROXY, "requestheader_uid_headers": "X-Remote-Uid"}, _ASKED, releases=("1.36", "1.37")
    ),
}
