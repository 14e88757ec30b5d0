"""Make CI fail if a skipped test is not listed with a reason in tests/allowed_skips.txt.

Each line of that file has the form `test | reason`. `*` in the test's id
(`tests/test_x.py::test_y[native]`) matches any text. Lines that begin with # are comments. This
pytest plugin has no effect unless the environment variable CI is set.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

ALLOWED = Path(__file__).with_name("allowed_skips.txt")


def read_allowed(path: Path = ALLOWED) -> list[re.Pattern[str]]:
    patterns = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        test, _, reason = (part.strip() for part in line.partition("|"))
        if not test or not reason:
            raise pytest.UsageError(f"{path.name}, line {number}: a line is `test | reason`")
        patterns.append(re.compile(re.escape(test).replace(r"\*", ".*")))
    return patterns


class SkipWatch:
    def __init__(self, allowed: list[re.Pattern[str]]) -> None:
        self.allowed = allowed
        self.unexpected: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.look_at(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.look_at(report)

    def look_at(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        if not report.skipped or hasattr(report, "wasxfail"):  # pytest also reports expected failures as skipped
            return
        if not any(pattern.fullmatch(report.nodeid) for pattern in self.allowed):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.unexpected[report.nodeid] = reason.removeprefix("Skipped: ")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unexpected and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.unexpected:
            terminalreporter.section("skipped in CI, but not listed in tests/allowed_skips.txt", red=True, bold=True)
            for test, reason in sorted(self.unexpected.items()):
                terminalreporter.line(f"{test}: {reason}")


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("CI"):
        config.pluginmanager.register(SkipWatch(read_allowed()), "kafkafmt-ci-skips")
