"""Names, labels and other identifiers, and the texts about wrong ones (upstream: `apimachinery/pkg/util/validation`).

Each function takes a text and returns what is wrong with it, [] for a good one. Lengths are in bytes.
"""

from __future__ import annotations

from understudy.machinery.util.caches import cache_short_texts
from understudy.machinery.util.regex import regex
from understudy.machinery.validation.bad_values import LabelText

LABEL_LENGTH = 63
SUBDOMAIN_LENGTH = 253

LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{LABEL}(\.{LABEL})*"
_RFC_1035_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_C_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"

_LOWER = "must consist of lower case alphanumeric characters"
_ENDS = "and must start and end with an alphanumeric character"
_WORD = f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"


class Format:
    """A pattern, and the text about values that do not match it (upstream: `validation.RegexError`)."""

    def __init__(self, pattern: str, rule: str, *examples: str, shown_pattern: str = "") -> None:
        """Keep the pattern and make the text. `shown_pattern` is in the text instead of the pattern."""
        self._regex = regex(pattern)
        listed = " or ".join(f"'{example}', " for example in examples)
        self.text = f"{rule} (e.g. {listed}regex used for validation is '{shown_pattern or pattern}')"

    def fits(self, value: str) -> bool:
        """Report whether a value matches the pattern."""
        return self._regex.fullmatch(value) is not None

    def texts(self, value: str) -> list[str]:
        """Return the text if a value does not match the pattern."""
        return [] if self.fits(value) else [self.text]


_label = Format(LABEL, f"a lowercase RFC 1123 label {_LOWER} or '-', {_ENDS}", "my-name", "123-abc")
_subdomain = Format(SUBDOMAIN, f"a lowercase RFC 1123 subdomain {_LOWER}, '-' or '.', {_ENDS}", "example.com")
_subdomain_any_case = Format(
    f"(?i){SUBDOMAIN}",
    f"an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', {_ENDS}",
    "Example.com",
    shown_pattern=SUBDOMAIN,
)
_rfc_1035_label = Format(
    _RFC_1035_LABEL,
    f"a DNS-1035 label {_LOWER} or '-', start with an alphabetic character, and end with an alphanumeric character",
    "my-name",
    "abc-123",
)
_qualified = Format(_QUALIFIED, _WORD, "MyName", "my.name", "123-abc")
_label_value = Format(
    f"({_QUALIFIED})?", f"a valid label must be an empty string or {_WORD[5:]}", "MyValue", "my_value", "12345"
)
_c_identifier = Format(
    _C_IDENTIFIER,
    "a valid C identifier must start with alphabetic character or '_', "
    "followed by a string of alphanumeric characters or '_'",
    "my_name",
    "MY_NAME",
    "MyName",
)
_reason = Format(
    _REASON,
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_'",
    "my_name",
    "MY_NAME",
    "MyName",
    "ReasonA,ReasonB",
    "ReasonA:ReasonB",
)


def size(text: str) -> int:
    """Return the length of a text in bytes."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def go_lower(text: str) -> str:
    """Return a text in lower case, letter by letter as Go does: a dotted capital I becomes a plain i."""
    return text.replace("\u0130", "i").lower()


def max_length_texts(text: str, limit: int) -> list[str]:
    """Check that a text has at most `limit` bytes (upstream: `validation.MaxLenError`)."""
    return [f"must be no more than {limit} characters"] if size(text) > limit else []


def dns_label_texts(value: str) -> list[str]:
    """Check an RFC 1123 label: lower case, up to 63 bytes (upstream: `IsDNS1123Label`)."""
    if len(value) <= LABEL_LENGTH and _label.fits(value):
        return []
    texts = max_length_texts(value, LABEL_LENGTH)
    if not _label.fits(value):
        texts.append("must not contain dots" if _subdomain.fits(value) else _label.text)
    return texts


def short_name_texts(value: str) -> list[str]:
    """Check an RFC 1123 label as declarative validation does (upstream: `validate.ShortName`)."""
    too_long = [f"must be no more than {LABEL_LENGTH} bytes"] if size(value) > LABEL_LENGTH else []
    return too_long + dns_label_texts(value)[len(too_long) :]


def dns_subdomain_texts(value: str) -> list[str]:
    """Check an RFC 1123 subdomain: labels with dots between them, up to 253 bytes (upstream: `IsDNS1123Subdomain`)."""
    if len(value) <= SUBDOMAIN_LENGTH and _subdomain.fits(value):
        return []
    return max_length_texts(value, SUBDOMAIN_LENGTH) + _subdomain.texts(value)


def long_name_texts(value: str, *, any_case: bool = False) -> list[str]:
    """Check a subdomain as declarative validation does (upstream: `validate.LongName`, `LongNameCaseless`)."""
    too_long = [f"must be no more than {SUBDOMAIN_LENGTH} bytes"] if size(value) > SUBDOMAIN_LENGTH else []
    return too_long + (_subdomain_any_case if any_case else _subdomain).texts(value)


def dns_1035_label_texts(value: str) -> list[str]:
    """Check an RFC 1035 label, which starts with a letter (upstream: `IsDNS1035Label`)."""
    return max_length_texts(value, LABEL_LENGTH) + _rfc_1035_label.texts(value)


def qualified_name_texts(value: str) -> list[str]:
    """Check a name with an optional subdomain and slash in front (upstream: `IsQualifiedName`).

    Keys of labels and annotations, finalizers and condition types are such names.
    """
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        text = f"{_qualified.text} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [LabelText(f"a qualified name {text}", f"a valid label key {text}")]
    texts: list[str] = []
    if slash and not prefix:
        texts.append("prefix part must be non-empty")
    elif slash:
        texts += _label_length_texts(prefix, SUBDOMAIN_LENGTH, "prefix part ")
        texts += [f"prefix part {text}" for text in _subdomain.texts(prefix)]
    texts += _label_length_texts(name, LABEL_LENGTH, "name part ") if name else ["name part must be non-empty"]
    return texts + [f"name part {text}" for text in _qualified.texts(name)]


def label_value_texts(value: str) -> list[str]:
    """Check the value of a label (upstream: `IsValidLabelValue`)."""
    return _label_length_texts(value, LABEL_LENGTH) + _label_value.texts(value)


@cache_short_texts(4096)
def is_label(text: str) -> bool:
    """Report whether a text such as "app=web" is a label, its key and its value. Many objects have the same labels."""
    key, _, value = text.partition("=")
    return not qualified_name_texts(key) and not label_value_texts(value)


def _label_length_texts(text: str, limit: int, part: str = "") -> list[str]:
    """Check that a part of a label, named by `part`, has at most `limit` bytes."""
    if size(text) <= limit:
        return []
    return [LabelText(f"{part}must be no more than {limit} characters", f"{part}must be no more than {limit} bytes")]


def c_identifier_texts(value: str) -> list[str]:
    """Check an identifier of the language C (upstream: `IsCIdentifier`)."""
    return _c_identifier.texts(value)


def condition_reason_texts(value: str) -> list[str]:
    """Check the reason of a condition (upstream: `isValidConditionReason`)."""
    return _reason.texts(value)


def _finished(name: str) -> str:
    """Replace the dash at the end of a generateName with a letter (upstream: `maskTrailingDash`)."""
    return name[:-2] + "a" if len(name) > 1 and name.endswith("-") else name


def subdomain_name(name: str, prefix: bool) -> list[str]:
    """Check a name that must be a subdomain, as most are (upstream: `NameIsDNSSubdomain`). `prefix`: a generateName."""
    return dns_subdomain_texts(_finished(name) if prefix else name)


def long_name(name: str, prefix: bool) -> list[str]:
    """Check a name that must be a subdomain, by declarative rules: a generateName, `prefix`, is not checked."""
    return [] if prefix else long_name_texts(name)


def label_name(name: str, prefix: bool) -> list[str]:
    """Check a name that must be a label, as a namespace's (upstream: `NameIsDNSLabel`). `prefix`: a generateName."""
    return dns_label_texts(_finished(name) if prefix else name)


def label_1035_name(name: str, prefix: bool) -> list[str]:
    """Check a name that must be an RFC 1035 label, as a service's (upstream: `NameIsDNS1035Label`)."""
    return dns_1035_label_texts(_finished(name) if prefix else name)


def path_segment_name(name: str, prefix: bool) -> list[str]:
    """Check a name that only has to fit into a path (upstream: `path.ValidatePathSegmentName`).

    Roles and bindings have such names, and every name is checked so on update.
    """
    if name in (".", "..") and not prefix:
        return [f"may not be '{name}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in name]
