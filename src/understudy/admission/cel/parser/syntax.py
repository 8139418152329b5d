"""The parser that explains: like upstream's it goes on after an error, and says the same about it.

It is the second to be asked. An expression the default parser accepts never comes here; one it refuses is read again,
with ANTLR's recovery: an extra token is dropped, a missing one imagined, otherwise everything up to a token that may
follow is skipped. One mistake is thus reported once, and several in one expression are all reported. It is also the
judge of very deep expressions, whose limits upstream counts in grammar rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from understudy.admission.cel.ast import Node
from understudy.admission.cel.errors import NOWHERE
from understudy.admission.cel.parser.atn import EPSILON, ORDER, Element, State, network
from understudy.admission.cel.parser.build import Builder
from understudy.admission.cel.parser.prediction import NoViableAlternativeError, Stack, predictor
from understudy.admission.cel.parser.syntax_tree import Branch, Leaf, TooDeepError, read
from understudy.admission.cel.parser.tokens import EOF, Token, Unreadable

MAX_RULE_DEPTH = 250
_MAX_RECOVERIES = 30
_MAX_SKIPPED = 256
_MAX_SYNTAX_ERRORS = 100


def surely_shallow(tokens: Sequence[Token]) -> bool:
    """False if the expression might exceed a depth limit; a rough, safe measure."""
    depth = deepest = operators = 0
    for token in tokens:
        if token.text in ("(", "[", "{"):
            depth += 1
            deepest = max(deepest, depth)
        elif token.text in (")", "]", "}"):
            depth -= 1
        elif token.text in _COUNTED:
            operators += 1
    return deepest < 40 and operators < 80


_COUNTED = frozenset(["+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "in", "?"])


def parse(tokens: Sequence[Token], unreadable: Sequence[Unreadable], builder: Builder) -> Node | None:
    """Read the tokens with recovery, report everything that is wrong, and give the tree if nothing was."""
    report = builder.report
    recognizer = _Recognizer(tokens, unreadable, report.source)
    try:
        tree: Branch | None = recognizer.start()
    except _AbortError as stop:
        tree = None
        if stop.message:
            report.add(NOWHERE, stop.message)
        # Nothing behind the token looked at last was ever read.
        unreadable = [piece for piece in unreadable if piece.pos < tokens[recognizer.furthest].pos]
    for piece in unreadable:
        report.add(piece.pos, _printed(f"Syntax error: {piece.message}"))
    for pos, message in recognizer.errors:
        report.add(pos, _printed(f"Syntax error: {message}"))
    if tree is None:
        return None
    try:
        node = read(tree, builder)
    except TooDeepError as error:
        report.add(NOWHERE, str(error))
        return None
    return None if report.errors else node


_VERB = re.compile(r"%[-+# 0]*[0-9]*(?:\.[0-9]*)?(.)?", re.DOTALL)


def _printed(message: str) -> str:
    """Upstream prints syntax errors through a format function without arguments: a percent sign eats what follows."""

    def verb(match: re.Match[str]) -> str:
        if match[1] is None:
            return "%!(NOVERB)"
        return "%" if match[1] == "%" else f"%!{match[1]}(MISSING)"

    return _VERB.sub(verb, message) if "%" in message else message


class _AbortError(Exception):
    """Parsing cannot go on; the message, if any, concerns the whole expression."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message


class _FailureError(Exception):
    """A rule cannot go on; it is reported and recovered from where the rule was called."""

    def __init__(self, pos: int, message: str) -> None:
        super().__init__(message)
        self.pos = pos


class _Recognizer:
    def __init__(self, tokens: Sequence[Token], unreadable: Sequence[Unreadable], source: str) -> None:
        self._tokens = tokens
        self._unreadable = unreadable
        self._source = source
        self._network = network()
        self._predictor = predictor()
        self._index = 0
        self.furthest = 0
        self.errors: list[tuple[int, str]] = []
        self._stack: Stack = ()
        self._precedence = 0
        self._state = self._network.starts["start"]
        self._recovering = False
        self._recoveries = 0
        self._last_error: tuple[int, set[State]] = (-1, set())
        self._depths: dict[str, int] = {}

    def start(self) -> Branch:
        """Read everything."""
        return self._invoke("start", 0)

    # walking the grammar

    def _invoke(self, rule: str, precedence: int) -> Branch:
        depth = self._depths.get(rule, 0) + 1
        if depth > MAX_RULE_DEPTH:
            raise _AbortError(f"expression recursion limit exceeded: {MAX_RULE_DEPTH}")
        self._depths[rule] = depth
        outer, self._precedence = self._precedence, precedence
        branch = Branch(rule, self._token().pos)
        try:
            self._run(self._network.rules[rule], branch)
        except _FailureError as failure:
            branch.failed = True
            if not self._recovering:
                self._recovering = True
                self._error(failure.pos, str(failure))
            self._recover()
        self._precedence = outer
        self._depths[rule] = depth - 1
        return branch

    def _run(self, element: Element, branch: Branch) -> None:
        match element.kind:
            case "token":
                self._state = element.state
                branch.parts.append(self._match(element))
            case "call":
                self._state = element.state
                outer = self._stack
                self._stack = (*outer, element.state.calls[0][1])
                branch.parts.append(self._invoke(element.rule, element.precedence))
                self._stack = outer
                self._state = element.state
            case "seq":
                for part in element.parts:
                    self._run(part, branch)
            case "alt":
                self._sync_at(element.state)
                number = self._predict(element.state)
                branch.marks.append((len(branch.parts), number))
                self._run(element.parts[number - 1], branch)
            case "opt":
                self._sync_at(element.state)
                if self._enters(element, element.state):
                    self._run(element.parts[0], branch)
            case "star":
                self._sync_at(element.state)
                while self._enters(element, element.state):
                    self._run(element.parts[0], branch)
                    self._sync_at(element.state_back)
            case "plus":
                self._sync_at(element.state)
                self._run(element.parts[0], branch)
                self._sync_at(element.state_back)
                while self._enters(element, element.state_back):
                    self._run(element.parts[0], branch)
                    self._sync_at(element.state_back)

    def _enters(self, element: Element, decision: State) -> bool:
        if not element.adaptive:
            return self._look(1) in element.first
        return self._predict(decision) == 1

    def _predict(self, decision: State) -> int:
        try:
            return self._predictor.predict(self._tokens, decision, self._index, self._stack, self._precedence)
        except NoViableAlternativeError as none:
            self.furthest = max(self.furthest, none.index)
            raise self._no_viable(none.index) from None

    def _no_viable(self, index: int) -> _FailureError:
        first, last = self._token(), self._tokens[index]
        if first.kind == EOF:
            return _FailureError(last.pos, "no viable alternative at input '<EOF>'")
        text = self._between(first.pos, last.pos + len(last.text))
        message = f"no viable alternative at input {_quoted(text)}"
        # Upstream rewords a keyword used as a field name.
        message = re.sub(
            "no viable alternative at input '.(true|false|null)'",
            r"mismatched input '\1' expecting IDENTIFIER",
            message,
        )
        return _FailureError(last.pos, message)

    def _between(self, start: int, end: int) -> str:
        """The source without what the lexer could not read."""
        text = ""
        for piece in self._unreadable:
            if start <= piece.pos < end:
                text += self._source[start : piece.pos]
                start = piece.pos + len(piece.text)
        return text + self._source[start:end]

    # tokens

    def _token(self) -> Token:
        return self._tokens[self._index]

    def _look(self, ahead: int) -> str:
        index = min(self._index + ahead - 1, len(self._tokens) - 1)
        self.furthest = max(self.furthest, index)
        return self._tokens[index].kind

    def _consume(self) -> None:
        if self._index < len(self._tokens) - 1:
            self._index += 1
            self.furthest = max(self.furthest, self._index)

    def _match(self, element: Element) -> Leaf:
        token = self._token()
        if token.kind in element.tokens:
            self._recovering = False
            self._consume()
            return Leaf(token)
        return self._recover_inline(element)

    # errors

    def _error(self, pos: int, message: str) -> None:
        if len(self.errors) >= _MAX_SYNTAX_ERRORS:
            self.errors.append((pos, f"More than {_MAX_SYNTAX_ERRORS} syntax errors"))
            raise _AbortError
        self.errors.append((pos, message))

    def _expected(self) -> set[str]:
        """What may come in this state, given the call stack."""
        return self._next_with_context(self._state)

    def _next_with_context(self, state: State) -> set[str]:
        found = set(state.next)
        for follow in reversed(self._stack):
            if EPSILON not in found:
                break
            found = (found - {EPSILON}) | follow.next
        if EPSILON in found:
            found = (found - {EPSILON}) | {EOF}
        return found

    def _recovery_set(self) -> set[str]:
        return set().union(*(follow.next for follow in self._stack)) - {EPSILON}

    def _mismatch(self) -> _FailureError:
        token = self._token()
        return _FailureError(token.pos, f"mismatched input {_shown(token)} expecting {_listed(self._expected())}")

    def _report_unwanted(self) -> None:
        if not self._recovering:
            self._recovering = True
            token = self._token()
            self._error(token.pos, f"extraneous input {_shown(token)} expecting {_listed(self._expected())}")

    def _sync_at(self, state: State) -> None:
        """Before a decision: get rid of tokens that cannot be meant."""
        self._state = state
        if self._recovering or EPSILON in state.next or self._look(1) in state.next:
            return
        if state.kind in ("block", "entry"):
            if not self._delete_one():
                raise self._mismatch()
        elif state.kind in ("star-back", "plus-back"):
            self._report_unwanted()
            self._skip_to(self._expected() | self._recovery_set())

    def _delete_one(self) -> bool:
        if self._look(2) not in self._expected():
            return False
        self._report_unwanted()
        self._consume()
        self._recovering = False
        return True

    def _recover_inline(self, element: Element) -> Leaf:
        self._count_recovery()
        if self._delete_one():
            token = self._token()
            self._consume()
            return Leaf(token)
        behind = element.state.tokens[0][1]
        token = self._token()
        if token.kind in self._next_with_context(behind):
            if not self._recovering:
                self._recovering = True
                self._error(token.pos, f"missing {_listed(self._expected())} at {_shown(token)}")
            return self._imagined(token)
        raise self._mismatch()

    def _imagined(self, current: Token) -> Leaf:
        kind = min(self._expected(), key=ORDER.__getitem__)
        if current.kind == EOF and self._index:
            current = self._tokens[self._index - 1]
        text = f"<missing {kind}>" if kind.startswith("'") else "<missing undefined>"
        return Leaf(Token(kind, text, current.pos), imagined=True)

    def _recover(self) -> None:
        self._count_recovery()
        index, states = self._last_error
        skipped = 0
        if index == self._index and self._state in states:
            self._consume()
            skipped = 1
        # The states of earlier errors stay remembered, as upstream's do.
        self._last_error = (self._index, states | {self._state})
        self._skip_to(self._recovery_set(), skipped)

    def _skip_to(self, wanted: set[str], skipped: int = 0) -> None:
        while (kind := self._look(1)) != EOF and kind not in wanted:
            if skipped >= _MAX_SKIPPED:
                raise _AbortError(f"error recovery token lookahead limit exceeded: {_MAX_SKIPPED}")
            skipped += 1
            self._consume()

    def _count_recovery(self) -> None:
        if self._recoveries == _MAX_RECOVERIES:
            self._error(self._token().pos, f"error recovery attempt limit exceeded: {_MAX_RECOVERIES}")
            raise _AbortError
        self._recoveries += 1


def _shown(token: Token) -> str:
    return "'<EOF>'" if token.kind == EOF else _quoted(token.text)


def _quoted(text: str) -> str:
    escaped = text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"


def _listed(kinds: set[str]) -> str:
    names = sorted(kinds, key=ORDER.__getitem__)
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"
