"""The error-reporting parser: recovers from syntax errors as cel-go's ANTLR parser does, and reports the same errors.

An expression that `quick_parser` accepts does not come here; one that it refuses is parsed again, with ANTLR's error
recovery (`DefaultErrorStrategy`): an extra token is deleted, a missing one is put in, and otherwise tokens are skipped
until one that may follow. One mistake is thus reported once, and several in one expression are all reported.

Very deep expressions are parsed here, too, because cel-go's limits count applications of grammar rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from understudy.cel.ast import Node
from understudy.cel.errors import MAX_RECURSION_DEPTH, NO_LOCATION, RecursionDepthError
from understudy.cel.parser.atn import EPSILON, ORDER, ATNState, Element, cel_atn
from understudy.cel.parser.atn_simulator import NoViableAlternativeError, atn_simulator
from understudy.cel.parser.builder import NodeBuilder
from understudy.cel.parser.parse_tree import RuleContext, TerminalNode, visit
from understudy.cel.parser.tokens import EOF, Token, UnrecognizedText
from understudy.machinery.util.regex import regex

_ERROR_RECOVERY_LIMIT = 30
_ERROR_RECOVERY_LOOKAHEAD_LIMIT = 256
_ERROR_REPORTING_LIMIT = 100


def parse(tokens: Sequence[Token], unreadable: Sequence[UnrecognizedText], builder: NodeBuilder) -> Node | None:
    """Return the tree of the tokens, or None if anything is wrong with them; all errors go to the builder's report."""
    report = builder.report
    printed = _as_printed_by_fmt if builder.dialect.percent_is_swallowed else str
    parser = _Parser(tokens, unreadable, report.source, builder.dialect.quoted_fields)
    try:
        tree: RuleContext | None = parser.start()
    except _ParseCancelledError as stop:
        tree = None
        if stop.message:
            report.add(NO_LOCATION, stop.message)
        # cel-go's lexer runs on demand: it never read anything after the last token that the parser looked at.
        unreadable = [piece for piece in unreadable if piece.pos < tokens[parser.furthest_index].pos]
    for piece in unreadable:
        report.add(piece.pos, printed(f"Syntax error: {piece.message}"))
    for pos, message in parser.errors:
        report.add(pos, printed(f"Syntax error: {message}"))
    if tree is None:
        return None
    try:
        node = visit(tree, builder)
    except RecursionDepthError as error:
        report.add(NO_LOCATION, str(error))
        return None
    return None if report.errors else node


_VERB = regex(r"%[-+# 0]*[0-9]*(?:\.[0-9]*)?(.)?", re.DOTALL)


def _as_printed_by_fmt(message: str) -> str:
    """Return a message as Go's `fmt.Sprintf` prints it without arguments: a percent sign swallows what follows.

    Some versions of cel-go pass syntax errors through a format function.
    """

    def verb(match: re.Match[str]) -> str:
        if match[1] is None:
            return "%!(NOVERB)"
        return "%" if match[1] == "%" else f"%!{match[1]}(MISSING)"

    return _VERB.sub(verb, message) if "%" in message else message


class _ParseCancelledError(Exception):
    """Parsing cannot continue (`ParseCancellationException`); the message, if any, concerns the whole expression."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message


class _RecognitionError(Exception):
    """A rule cannot continue (`RecognitionException`); the caller of the rule reports the error and recovers."""

    def __init__(self, pos: int, message: str) -> None:
        super().__init__(message)
        self.pos = pos


class _Parser:
    """Walks the rules of the network over the tokens and builds the parse tree, with ANTLR's error recovery.

    `errors` holds the syntax errors as (offset, message), `furthest_index` the index of the last token looked at.
    """

    def __init__(
        self, tokens: Sequence[Token], unreadable: Sequence[UnrecognizedText], source: str, quoted_fields: bool
    ) -> None:
        self._tokens = tokens
        self._unreadable = unreadable
        self._source = source
        self._atn = cel_atn(quoted_fields)
        self._simulator = atn_simulator(quoted_fields)
        self._index = 0
        self.furthest_index = 0
        self.errors: list[tuple[int, str]] = []
        self._stack: tuple[ATNState, ...] = ()
        self._precedence = 0
        self._state = self._atn.rule_start_states["start"]
        self._error_recovery_mode = False
        self._recovery_attempts = 0
        self._last_error_states: tuple[int, set[ATNState]] = (-1, set())
        self._depths: dict[str, int] = {}

    def start(self) -> RuleContext:
        """Return the parse tree of the whole source. Raises `_ParseCancelledError`."""
        return self._parse_rule("start", 0)

    # rules and decisions

    def _parse_rule(self, rule: str, precedence: int) -> RuleContext:
        """Return the parse tree of one application of a rule."""
        depth = self._depths.get(rule, 0) + 1
        if depth > MAX_RECURSION_DEPTH:
            raise _ParseCancelledError(f"expression recursion limit exceeded: {MAX_RECURSION_DEPTH}")
        self._depths[rule] = depth
        outer, self._precedence = self._precedence, precedence
        context = RuleContext(rule, self._token().pos)
        try:
            self._parse_element(self._atn.rules[rule], context)
        except _RecognitionError as failure:
            context.failed = True
            if not self._error_recovery_mode:
                self._error_recovery_mode = True
                self._report_error(failure.pos, str(failure))
            self._recover()
        self._precedence = outer
        self._depths[rule] = depth - 1
        return context

    def _parse_element(self, element: Element, context: RuleContext) -> None:
        """Parse one element of a rule and append what it matches to the rule's context."""
        match element.kind:
            case "token":
                self._state = element.state
                context.parts.append(self._match(element))
            case "call":
                self._state = element.state
                outer = self._stack
                self._stack = (*outer, element.state.rule_transitions[0][1])
                context.parts.append(self._parse_rule(element.rule, element.precedence))
                self._stack = outer
                self._state = element.state
            case "seq":
                for part in element.parts:
                    self._parse_element(part, context)
            case "alt":
                self._sync(element.state)
                number = self._adaptive_predict(element.state)
                context.alternatives.append((len(context.parts), number))
                self._parse_element(element.parts[number - 1], context)
            case "opt":
                self._sync(element.state)
                if self._enters_block(element, element.state):
                    self._parse_element(element.parts[0], context)
            case "star":
                self._sync(element.state)
                while self._enters_block(element, element.state):
                    self._parse_element(element.parts[0], context)
                    self._sync(element.state_back)
            case "plus":
                self._sync(element.state)
                self._parse_element(element.parts[0], context)
                self._sync(element.state_back)
                while self._enters_block(element, element.state_back):
                    self._parse_element(element.parts[0], context)
                    self._sync(element.state_back)

    def _enters_block(self, element: Element, decision: ATNState) -> bool:
        """Report whether the next tokens begin an optional element or another round of a loop."""
        if not element.adaptive:
            return self._lookahead(1) in element.first
        return self._adaptive_predict(decision) == 1

    def _adaptive_predict(self, decision: ATNState) -> int:
        try:
            return self._simulator.adaptive_predict(self._tokens, decision, self._index, self._precedence)
        except NoViableAlternativeError as none:
            self.furthest_index = max(self.furthest_index, none.index)
            raise self._no_viable_alternative(none.index) from None

    def _no_viable_alternative(self, index: int) -> _RecognitionError:
        """Return the error for a decision none of whose alternatives fits."""
        first, last = self._token(), self._tokens[index]
        if first.kind == EOF:
            return _RecognitionError(last.pos, "no viable alternative at input '<EOF>'")
        text = self._source_between(first.pos, last.pos + len(last.text))
        message = f"no viable alternative at input {_quoted(text)}"
        # cel-go changes the message if a keyword is used as a field name.
        message = re.sub(
            "no viable alternative at input '.(true|false|null)'",
            r"mismatched input '\1' expecting IDENTIFIER",
            message,
        )
        return _RecognitionError(last.pos, message)

    def _source_between(self, start: int, end: int) -> str:
        """Return the source between two offsets, without the text that the lexer did not recognize."""
        text = ""
        for piece in self._unreadable:
            if start <= piece.pos < end:
                text += self._source[start : piece.pos]
                start = piece.pos + len(piece.text)
        return text + self._source[start:end]

    # tokens

    def _token(self) -> Token:
        return self._tokens[self._index]

    def _lookahead(self, ahead: int) -> str:
        """Return the kind of the token `ahead` places from here, the current one being 1 (`LA`)."""
        index = min(self._index + ahead - 1, len(self._tokens) - 1)
        self.furthest_index = max(self.furthest_index, index)
        return self._tokens[index].kind

    def _consume(self) -> None:
        if self._index < len(self._tokens) - 1:
            self._index += 1
            self.furthest_index = max(self.furthest_index, self._index)

    def _match(self, element: Element) -> TerminalNode:
        """Consume the token of an element, or recover if the current token is another."""
        token = self._token()
        if token.kind in element.tokens:
            self._error_recovery_mode = False
            self._consume()
            return TerminalNode(token)
        return self._recover_inline(element)

    # errors

    def _report_error(self, pos: int, message: str) -> None:
        """Keep an error. Raises `_ParseCancelledError` after too many of them."""
        if len(self.errors) >= _ERROR_REPORTING_LIMIT:
            self.errors.append((pos, f"More than {_ERROR_REPORTING_LIMIT} syntax errors"))
            raise _ParseCancelledError
        self.errors.append((pos, message))

    def _expected_tokens(self) -> set[str]:
        """Return the tokens that may come in the current state, given the call stack."""
        return self._next_tokens_in_context(self._state)

    def _next_tokens_in_context(self, state: ATNState) -> set[str]:
        tokens = set(state.next_tokens)
        for follow in reversed(self._stack):
            if EPSILON not in tokens:
                break
            tokens = (tokens - {EPSILON}) | follow.next_tokens
        if EPSILON in tokens:
            tokens = (tokens - {EPSILON}) | {EOF}
        return tokens

    def _error_recovery_set(self) -> set[str]:
        """Return the tokens that may follow any of the rules on the call stack."""
        return set().union(*(follow.next_tokens for follow in self._stack)) - {EPSILON}

    def _input_mismatch(self) -> _RecognitionError:
        token = self._token()
        return _RecognitionError(
            token.pos, f"mismatched input {_token_text(token)} expecting {_token_set_text(self._expected_tokens())}"
        )

    def _report_unwanted_token(self) -> None:
        if not self._error_recovery_mode:
            self._error_recovery_mode = True
            token = self._token()
            self._report_error(
                token.pos, f"extraneous input {_token_text(token)} expecting {_token_set_text(self._expected_tokens())}"
            )

    def _sync(self, state: ATNState) -> None:
        """Delete or skip tokens that cannot begin any alternative, before a decision is taken (`sync`)."""
        self._state = state
        if self._error_recovery_mode or EPSILON in state.next_tokens or self._lookahead(1) in state.next_tokens:
            return
        if state.kind in ("block", "entry"):
            if not self._single_token_deletion():
                raise self._input_mismatch()
        elif state.kind in ("star-back", "plus-back"):
            self._report_unwanted_token()
            self._consume_until(self._expected_tokens() | self._error_recovery_set())

    def _single_token_deletion(self) -> bool:
        """Delete the current token if the one after it is expected, and report whether that was so."""
        if self._lookahead(2) not in self._expected_tokens():
            return False
        self._report_unwanted_token()
        self._consume()
        self._error_recovery_mode = False
        return True

    def _recover_inline(self, element: Element) -> TerminalNode:
        """Return the node of an expected token after deleting the one before it, or a missing one put in its place."""
        self._check_recovery_limit()
        if self._single_token_deletion():
            token = self._token()
            self._consume()
            return TerminalNode(token)
        behind = element.state.tokens[0][1]
        token = self._token()
        if token.kind in self._next_tokens_in_context(behind):
            if not self._error_recovery_mode:
                self._error_recovery_mode = True
                self._report_error(
                    token.pos, f"missing {_token_set_text(self._expected_tokens())} at {_token_text(token)}"
                )
            return self._missing_symbol(token)
        raise self._input_mismatch()

    def _missing_symbol(self, current: Token) -> TerminalNode:
        """Return the node of a token that is put in because it is missing (`getMissingSymbol`)."""
        kind = min(self._expected_tokens(), key=ORDER.__getitem__)
        if current.kind == EOF and self._index:
            current = self._tokens[self._index - 1]
        text = f"<missing {kind}>" if kind.startswith("'") else "<missing undefined>"
        return TerminalNode(Token(kind, text, current.pos), is_missing=True)

    def _recover(self) -> None:
        """Skip tokens until one that may follow a rule on the call stack.

        Where the last error was in the same place, at least one token is skipped.
        """
        self._check_recovery_limit()
        index, states = self._last_error_states
        skipped = 0
        if index == self._index and self._state in states:
            self._consume()
            skipped = 1
        # ANTLR never clears the states of earlier errors, so neither does this.
        self._last_error_states = (self._index, states | {self._state})
        self._consume_until(self._error_recovery_set(), skipped)

    def _consume_until(self, stop_kinds: set[str], skipped: int = 0) -> None:
        while (kind := self._lookahead(1)) != EOF and kind not in stop_kinds:
            if skipped >= _ERROR_RECOVERY_LOOKAHEAD_LIMIT:
                raise _ParseCancelledError(
                    f"error recovery token lookahead limit exceeded: {_ERROR_RECOVERY_LOOKAHEAD_LIMIT}"
                )
            skipped += 1
            self._consume()

    def _check_recovery_limit(self) -> None:
        """Count an attempt to recover. Raises `_ParseCancelledError` above cel-go's limit."""
        if self._recovery_attempts == _ERROR_RECOVERY_LIMIT:
            self._report_error(self._token().pos, f"error recovery attempt limit exceeded: {_ERROR_RECOVERY_LIMIT}")
            raise _ParseCancelledError
        self._recovery_attempts += 1


def _token_text(token: Token) -> str:
    return "'<EOF>'" if token.kind == EOF else _quoted(token.text)


def _quoted(text: str) -> str:
    escaped = text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"


def _token_set_text(kinds: set[str]) -> str:
    """Return the names of token kinds for messages: one alone, several in braces."""
    names = sorted(kinds, key=ORDER.__getitem__)
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"
