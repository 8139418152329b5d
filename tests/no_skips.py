"""The option `--no-skips` of pytest: a test that is skipped is a failure, so that CI leaves nothing out unnoticed."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="fail if a test is skipped")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if _count(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if count := _count(config):
        terminalreporter.write_line(f"--no-skips: {count} skipped", red=True)


def _count(config: pytest.Config) -> int:
    """Return the number of skipped tests; 0 without the option, and in the workers of pytest-xdist."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return len(reporter.stats.get("skipped", ())) if reporter and config.getoption("no_skips") else 0
