"""Notes what users ask for, and whether they may."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import field

from understudy.machinery.auth.authorization import Attributes, Authorizer, Decision, SubjectRules
from understudy.machinery.auth.users import User
from understudy.machinery.types import dataclass

log = logging.getLogger("understudy")

MOST_TEXT = 4 * 1024 * 1024  # characters of users, groups, paths and names that are noted
_ENTRY = 64  # characters that count for every entry besides its texts


@dataclass(slots=True)
class Note:
    """An action that a user asked to take: how often, and the names of the objects ("" for a request without one)."""

    action: Attributes
    count: int = 0
    names: set[str] = field(default_factory=set)


@dataclass(slots=True)
class UserNotes:
    """The actions of one user, those that were allowed apart from those that were not.

    Keys are verb, group, resource, subresource and namespace, or verb and path.
    """

    user: User
    allowed: dict[tuple[str, ...], Note] = field(default_factory=dict)
    refused: dict[tuple[str, ...], Note] = field(default_factory=dict)


class PermissionLog:
    """Notes the actions of every user, up to MOST_TEXT. Nothing is noted unless it is `on`.

    missed  requests of which something was not noted any more
    """

    def __init__(self, *, on: bool = False) -> None:
        self.on = on
        self.missed = 0
        self._users: dict[str, UserNotes] = {}
        self._room = MOST_TEXT

    @property
    def users(self) -> Mapping[str, UserNotes]:
        """Return the notes by the names of users."""
        return self._users

    def note(self, user: User, action: Attributes, allowed: bool) -> None:
        """Note that a user asked for something. Called on every request while it is on, hence quick."""
        notes = self._users.get(user.name)
        if notes is None:
            if not self._has_room(user.name, *user.groups):
                return
            notes = self._users[user.name] = UserNotes(user)
        key: tuple[str, ...] = (action.verb, action.path)
        if action.is_resource:
            key = (action.verb, action.group, action.resource, action.subresource, action.namespace)
        kept = notes.allowed if allowed else notes.refused
        note = kept.get(key)
        if note is None:
            if not self._has_room(*key):
                return
            note = kept[key] = Note(action)
        note.count += 1
        if action.name not in note.names and self._has_room(action.name):
            note.names.add(action.name)

    def _has_room(self, *texts: str) -> bool:
        """Take the room for texts that are to be noted; count what finds none, and warn of the first."""
        size = sum(map(len, texts)) + _ENTRY
        if size <= self._room:
            self._room -= size
            return True
        if not self.missed:
            log.warning("the permission report is full: nothing new is noted in it")
        self.missed += 1
        return False

    def clear(self) -> None:
        """Forget all notes."""
        self._users.clear()
        self.missed, self._room = 0, MOST_TEXT


class NotingAuthorizer:
    """Asks an authorizer, and notes what was asked: rights that a request needs besides that for its path."""

    def __init__(self, authorizer: Authorizer, log: PermissionLog) -> None:
        self._authorizer = authorizer
        self._log = log

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        decision = self._authorizer.authorize(user, attributes)
        if self._log.on:
            self._log.note(user, attributes, decision.allowed)
        return decision

    def rules_for(self, user: User, namespace: str) -> SubjectRules:
        return self._authorizer.rules_for(user, namespace)
