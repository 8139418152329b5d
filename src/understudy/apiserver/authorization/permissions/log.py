"""Notes what users ask for, and whether they may."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from understudy.apiserver.authorization.authorizer import Attributes, Authorizer, Decision, SubjectRules
from understudy.machinery.users import User


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
    """Notes the actions of every user. Nothing is noted unless it is `on`."""

    def __init__(self, *, on: bool = False) -> None:
        self.on = on
        self._users: dict[str, UserNotes] = {}

    @property
    def users(self) -> Mapping[str, UserNotes]:
        """Return the notes by the names of users."""
        return self._users

    def note(self, user: User, action: Attributes, allowed: bool) -> None:
        """Note that a user asked for something. Called on every request while it is on, hence quick."""
        notes = self._users.get(user.name)
        if notes is None:
            notes = self._users[user.name] = UserNotes(user)
        key: tuple[str, ...] = (action.verb, action.path)
        if action.is_resource:
            key = (action.verb, action.group, action.resource, action.subresource, action.namespace)
        kept = notes.allowed if allowed else notes.refused
        note = kept.get(key)
        if note is None:
            note = kept[key] = Note(action)
        note.count += 1
        note.names.add(action.name)

    def clear(self) -> None:
        """Forget all notes."""
        self._users.clear()


class NotingAuthorizer:
    """Asks an authorizer, and notes what was asked: rights that a request needs besides that for its path."""

    def __init__(self, authorizer: Authorizer, log: PermissionLog) -> None:
        self._authorizer = authorizer
        self._log = log

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        """Return the decision of the authorizer."""
        decision = self._authorizer.authorize(user, attributes)
        if self._log.on:
            self._log.note(user, attributes, decision.allowed)
        return decision

    def rules_for(self, user: User, namespace: str) -> SubjectRules:
        """Return what the user may do in a namespace."""
        return self._authorizer.rules_for(user, namespace)
