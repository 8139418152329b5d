"""What came of a driver test, as lines of text, as JUnit XML for build servers, and as a table in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree

from understudy.controlplane.drivers.runner import Outcome, Verdict

_SIGNS = {Verdict.PASSED: "✓", Verdict.FAILED: "✗", Verdict.SKIPPED: "-"}


def line(outcome: Outcome) -> str:
    """Return `1.37 prepares-again: passed (0.4 s)`; the rule and why it failed are below it."""
    heading = f"{outcome.release} {outcome.case.name}: {outcome.verdict}"
    if outcome.verdict is Verdict.PASSED:
        return f"{heading} ({outcome.seconds:.1f} s)"
    if outcome.verdict is Verdict.SKIPPED:
        return f"{heading}, {outcome.text}"
    return f"{heading} ({outcome.seconds:.1f} s)\n    {outcome.text}\n    Rule: {outcome.case.rule}"


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return `24 passed, 1 failed, 1 skipped`."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict)


def junit(outcomes: Sequence[Outcome]) -> str:
    """Return a JUnit document: a suite for each release, a test case for each case."""
    root = ElementTree.Element("testsuites", name="understudy drivers test")
    for release in _releases(outcomes):
        of_release = [outcome for outcome in outcomes if outcome.release == release]
        counts = Counter(outcome.verdict for outcome in of_release)
        suite = ElementTree.SubElement(
            root, "testsuite", name=f"Kubernetes {release}", tests=str(len(of_release)), errors="0",
            failures=str(counts[Verdict.FAILED]), skipped=str(counts[Verdict.SKIPPED]),
            time=f"{sum(outcome.seconds for outcome in of_release):.3f}",
        )  # fmt: skip
        for outcome in of_release:
            _add(suite, outcome)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add(suite: ElementTree.Element, outcome: Outcome) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", classname=f"drivers.{outcome.release}", name=outcome.case.name, time=f"{outcome.seconds:.3f}"
    )
    text = _printable(outcome.text)
    if outcome.verdict is Verdict.SKIPPED:
        ElementTree.SubElement(case, "skipped", message=text)
    elif outcome.verdict is Verdict.FAILED:
        failure = ElementTree.SubElement(case, "failure", message=text.partition("\n")[0])
        failure.text = f"{text}\nRule: {outcome.case.rule}"


def _printable(text: str) -> str:
    """Return a text without the control characters that XML does not allow."""
    return "".join(char if char >= " " or char in "\n\t" else "�" for char in text)


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Return a table with a row for each case and a column for each release, and below it why cases failed."""
    releases = _releases(outcomes)
    by_place = {(outcome.case.name, outcome.release): outcome for outcome in outcomes}
    lines = [f"| case | {' | '.join(releases)} |", f"|---|{'---|' * len(releases)}"]
    for name in dict.fromkeys(outcome.case.name for outcome in outcomes):
        signs = [_SIGNS[by_place[name, release].verdict] for release in releases]
        lines.append(f"| {name} | {' | '.join(signs)} |")
    lines += ["", f"{summary(outcomes)}."]
    for outcome in outcomes:
        if outcome.verdict is not Verdict.PASSED:
            text = outcome.text.replace("\n", "\n  ")
            lines += ["", f"- **{outcome.case.name}** on {outcome.release} {outcome.verdict}: {text}"]
            lines += [f"  Rule: {outcome.case.rule}"] if outcome.verdict is Verdict.FAILED else []
    return "\n".join(lines) + "\n"


def _releases(outcomes: Sequence[Outcome]) -> list[str]:
    return list(dict.fromkeys(outcome.release for outcome in outcomes))
