"""Errors of HTTP/2, apart from what speaks it, which is imported when a server does."""

from __future__ import annotations


class Http2Error(Exception):
    """A request that has no answer; the text is Go's."""


class NotProcessedError(Http2Error):
    """A request that the server has not looked at: it may be sent again."""
