"""Asks other issuers of tokens where their keys are, until each has answered: at the start, and when they change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from understudy.apiserver.authentication.errors import NoKeysError, ProviderError

if TYPE_CHECKING:
    from understudy.apiserver.authentication.oidc.jwt_authenticator import JWTAuthenticator

INTERVAL = 10.0  # seconds after which an issuer whose keys are not known is asked again
TRIES = 6  # to reach the issuers of a new configuration

log = logging.getLogger("understudy")


async def _ask(authenticator: JWTAuthenticator) -> None:
    """Ask an issuer where its keys are, unless it has answered. Raises ProviderError."""
    if not authenticator.key_set.is_initialized:
        await asyncio.to_thread(authenticator.key_set.discover)


async def discover(authenticators: Sequence[JWTAuthenticator]) -> None:
    """Ask the issuers that have not answered yet. Those that do not answer are logged."""
    for authenticator in authenticators:
        try:
            await _ask(authenticator)
        except NoKeysError as error:
            log.error("%s", error)
        except ProviderError as error:
            log.error("oidc authenticator: initializing plugin: %s", error)


async def discover_periodically(authenticators: Sequence[JWTAuthenticator]) -> None:
    """Ask the issuers again until all have answered."""
    while not all(authenticator.key_set.is_initialized for authenticator in authenticators):
        await asyncio.sleep(INTERVAL)
        await discover(authenticators)


async def reach(authenticators: Sequence[JWTAuthenticator]) -> None:
    """Ask the issuers of a new configuration until all have answered. Raises ValueError for one that does not answer
    for a minute."""
    for tried in range(1, TRIES + 1):
        try:
            for authenticator in authenticators:
                await _ask(authenticator)
        except ProviderError as error:
            if tried == TRIES:
                raise ValueError(f"oidc authenticator: initializing plugin: {error}") from None
            await asyncio.sleep(INTERVAL)
        else:
            return
