"""The faults of a server over HTTP, as a page of its control API."""

from __future__ import annotations

import orjson

from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.server.filters.faults.document import (
    InvalidRulesError,
    described,
    described_fired,
    read_rules,
)
from understudy.apiserver.server.filters.faults.faults import Faults
from understudy.machinery import errors
from understudy.machinery.validation.field import Path


class FaultsPage:
    """Answers requests for `/understudy/faults`, and for one of them by its number."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def answer(self, request: Request) -> object:
        """List, add or remove rules. Raises 400, 404, 405, 422."""
        number = request.path.partition("/faults")[2].removeprefix("/")
        rules = [rule for rule in self._faults if number in ("", str(rule.id))]
        if number and not rules:
            raise errors.not_found("", "faults", number)
        if request.method == "DELETE":
            for rule in rules:
                rule.remove()
            return {"items": [described(rule) for rule in rules]}
        if request.method == "POST" and not number:
            return self._added(request)
        if request.method != "GET":
            raise errors.method_not_allowed()
        if number:
            return described(rules[0])
        fired = [described_fired(each) for each in self._faults.fired]
        return {"items": [described(rule) for rule in rules], "fired": fired}

    def _added(self, request: Request) -> object:
        """Add the rule in the body of a request, or the list of them; return what was added. Raises 400, 422."""
        try:
            document = orjson.loads(request.body)
        except orjson.JSONDecodeError as why:
            raise errors.bad_request(f"faults: {why}") from None
        is_list = isinstance(document, list)
        try:
            rules = read_rules(document if is_list else [document], self._faults, Path("items") if is_list else None)
        except InvalidRulesError as wrong:
            raise errors.invalid("", "Fault", "", wrong.errors, self._faults.version) from None
        added = [described(self._faults.put(rule)) for rule in rules]
        return {"items": added} if is_list else added[0]
