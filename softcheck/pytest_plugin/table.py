"""One table and one page at the end of a pytest run; what a test has judged travels as text on its report, from xdist's workers too."""

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from softcheck.pytest_plugin.settings import settings_of

if TYPE_CHECKING:
    from softcheck.report.model import Report
    from softcheck.report.suite import JudgedTest

_ATTRIBUTE = "softcheck_judged"
"""The attribute of a test's report that holds what the test has judged."""


def attach(report: pytest.TestReport, judged: "list[JudgedTest]") -> None:
    """Sends with a test's report what the test has judged."""
    setattr(report, _ATTRIBUTE, [each.encoded() for each in judged])


def report_of(config: pytest.Config, judged: "list[JudgedTest]", seconds: float) -> "Report":
    """The report of what tests have judged, one at least, in so many seconds."""
    from softcheck.report.suite import suite_report

    settings = settings_of(config)
    return suite_report(
        judged,
        command=["pytest", *map(str, config.invocation_params.args)],
        seed=settings.seed,
        require_all_sizes=settings.require_all_sizes,
        seconds=seconds,
    )


class SuiteTable:
    """Gathers what tests have judged in the process that reports, and shows it when all tests have run."""

    def __init__(self, config: pytest.Config, page: Path | None) -> None:
        """Takes the file of the page, if one is wanted."""
        self._config = config
        self._page = page
        self._begun = time.monotonic()
        self._judged: list[str] = []
        self._report: Report | None = None
        self._why_no_page = "no page: no test judged anything"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keeps what a test has judged, whichever process it ran in."""
        self._judged += getattr(report, _ATTRIBUTE, ())

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Writes the page and the summary of a GitHub step, whether or not there is a terminal."""
        if not self._judged:
            return
        from msgspec.structs import replace

        from softcheck.errors import UsageError
        from softcheck.report import ci
        from softcheck.report.formats import render
        from softcheck.report.output import write
        from softcheck.report.suite import decoded

        report = report_of(self._config, list(map(decoded, self._judged)), time.monotonic() - self._begun)
        report = replace(report, interrupted=exitstatus == pytest.ExitCode.INTERRUPTED)
        self._report, self._why_no_page = report, ""
        ci.add_step_summary(lambda: render(report, "markdown"))
        if self._page is not None:
            try:
                write(render(report, "html"), str(self._page))
            except UsageError as error:
                self._why_no_page = f"no page: {error}"

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """Prints the table, unless pytest is told twice to be quiet, and where the page is."""
        if self._report is not None and config.get_verbosity() > -2:
            from softcheck.report.output import Display
            from softcheck.report.table import render_tables

            width = shutil.get_terminal_size().columns if terminalreporter.isatty else None
            terminalreporter.section("softcheck")
            terminalreporter.write(render_tables(self._report, Display(width, color=terminalreporter.hasmarkup)))
        if self._page is not None:
            terminalreporter.write_line(f"softcheck: {self._why_no_page or self._page.as_uri()}")
