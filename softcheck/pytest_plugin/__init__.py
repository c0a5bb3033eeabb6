"""pytest plugin: the ``accuracy`` marker and its fixtures. Loads nothing heavy until a test asks for one.

A test suite uses it so::

    @pytest.mark.accuracy(variants=["my_kernels.py:softmax"], dtypes=["float16"])  # a path from the root folder
    def test_softmax(accuracy):
        accuracy.check()

which becomes one test per variant, dtype and case family and one per variant, dtype and probe; with ``generated_accuracy`` and
``search()`` it becomes one per variant and dtype. A test that passes without having called ``check()`` or ``search()`` has judged
nothing, and fails. At the end stands one table of all that the tests have judged. A test that wants figures asks for
``softcheck_report`` beside one of these fixtures.
"""

import os
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from softcheck.pytest_plugin import settings
from softcheck.pytest_plugin.settings import settings_of
from softcheck.pytest_plugin.table import SuiteTable, attach, report_of

if TYPE_CHECKING:
    from softcheck.report.model import Report
    from softcheck.run.session import Session
    from softcheck.testing import Accuracy, GeneratedAccuracy, ProbedAccuracy, Told

_MARKER = (
    "accuracy(variants, dtypes, families, corpora, probes): judge softmax variants on the corpora and put them through "
    "the probes; every argument is a list or a single name and may be left out (then: the built-in variants, every dtype, "
    "family, corpus and probe; no probes where families or corpora are chosen and probes are not). Needs the `accuracy` or "
    "the `generated_accuracy` fixture"
)
_FIXTURES = {"accuracy": "check", "generated_accuracy": "search"}
"""Fixtures, each with the method that judges."""

_SUBJECTS: "pytest.StashKey[dict[str, Accuracy | ProbedAccuracy | GeneratedAccuracy]]" = pytest.StashKey()
"""Objects that the fixtures of one test handed out."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options, which override the marker's arguments."""
    settings.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker with its arguments, and the table in the process that reports."""
    config.addinivalue_line("markers", _MARKER)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SuiteTable(config, _page(config)), "softcheck_table")


def _page(config: pytest.Config) -> Path | None:
    """The file of ``--softcheck-html``, found out to be writable before anything runs; None if it was left out."""
    written = config.getoption("--softcheck-html")
    if written is None:
        return None
    from softcheck.errors import UsageError
    from softcheck.report.output import check_writable

    path = config.invocation_params.dir / str(written)
    try:
        check_writable(str(path))
    except UsageError as error:
        raise pytest.UsageError(f"softcheck: {error}".replace("--output", "--softcheck-html", 1)) from None
    return path


def pytest_report_header(config: pytest.Config) -> str:
    """Version, device, seed and what the run is narrowed to."""
    from softcheck import __version__

    settings = settings_of(config)
    narrowed = (f"; {name} {', '.join(chosen)}" for name, chosen in settings.chosen.items() if chosen)
    return f"softcheck {__version__}: device {settings.device}; seed {settings.seed}" + "".join(narrowed)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says which environment variables look like settings and are none."""
    if any(name.startswith("SOFTCHECK_") for name in os.environ):
        from softcheck.cli.config import unknown_variables
        from softcheck.cli.main import cli

        for sentence in unknown_variables(cli):
            terminalreporter.write_line(f"softcheck: {sentence}", yellow=True)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Makes one test per variant, dtype and family or probe for ``accuracy``, and one per variant and dtype for ``generated_accuracy``."""
    wanted = set(_FIXTURES) & set(metafunc.fixturenames)
    if not wanted:
        return
    from softcheck.errors import UsageError

    marker = metafunc.definition.get_closest_marker("accuracy")
    try:
        names = settings.asked(metafunc.config, marker)
        if "accuracy" in wanted:
            metafunc.parametrize("accuracy", settings.judged(metafunc.config, names), indirect=True)
        if "generated_accuracy" in wanted:
            metafunc.parametrize("generated_accuracy", settings.generated(metafunc.config, names), indirect=True)
    except UsageError as error:
        # pytest shows only the message of this exception.
        raise pytest.Collector.CollectError(f"{metafunc.definition.nodeid}: {error}") from None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fails a test that has passed without judging anything; shows softcheck's own errors without a traceback."""
    from softcheck.errors import SoftcheckError

    subjects = item.stash.get(_SUBJECTS, {})
    try:
        yield
    except SoftcheckError as error:
        if not subjects:
            raise
        pytest.fail(str(error), pytrace=False)
    for fixture, subject in subjects.items():
        if not subject.has_judged:
            _fail_unjudged(f"the test never called {fixture}.{_FIXTURES[fixture]}()")
    if not subjects and _is_marked(item):
        _fail_unjudged(
            "the test has the accuracy marker and asks for none of its fixtures; write def test(accuracy): "
            "accuracy.check()"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Sends with a test's report what the test has judged."""
    report = yield
    if call.when == "call":
        attach(report, [subject.judged for subject in item.stash.get(_SUBJECTS, {}).values() if subject.has_judged])
    return report


def _fail_unjudged(why: str) -> NoReturn:
    pytest.fail(f"softcheck: nothing was judged: {why}", pytrace=False)


def _is_marked(item: pytest.Item) -> bool:
    """True if a test itself, not only its class or module, has the marker, and the project registers none of its own by that name."""
    registered = {str(line) for line in item.config.getini("markers")} - {_MARKER}
    is_theirs = any(line.replace("(", ":").split(":")[0].strip() == "accuracy" for line in registered)
    return not is_theirs and any(mark.name == "accuracy" for mark in item.own_markers)


@pytest.fixture(scope="session")
def softcheck_session(request: pytest.FixtureRequest) -> "Iterator[Session]":
    """A warm worker on the chosen device; a kernel that kills it costs one test."""
    from softcheck.errors import SoftcheckError
    from softcheck.run.session import Session

    try:
        session = Session(settings_of(request.config).device, jobs=1)
    except SoftcheckError as error:
        pytest.exit(f"softcheck: {error}", returncode=error.exit_code)
    yield session
    session.close()


_TOLD: "pytest.StashKey[dict[tuple[str, str], Told]]" = pytest.StashKey()
"""Causes that tests have failed of so far, by variant and dtype."""


def _common(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Arguments of every subject beside its variant."""
    settings = settings_of(request.config)
    return {
        "seed": settings.seed,
        "require_all_sizes": settings.require_all_sizes,
        "told": request.config.stash.setdefault(_TOLD, {}),
        "name": request.node.name,
    }


@pytest.fixture(scope="session")
def _softcheck_subjects(request: pytest.FixtureRequest) -> int:
    """Variants times dtypes among the tests of this run, counted once."""
    params = (getattr(item, "callspec", None) for item in request.session.items)
    asked = (spec.params.get("accuracy") for spec in params if spec is not None)
    return len({judged[:2] for judged in asked if judged is not None})


@pytest.fixture
def accuracy(
    request: pytest.FixtureRequest, softcheck_session: "Session", _softcheck_subjects: int
) -> "Accuracy | ProbedAccuracy":
    """The variant, dtype and saved cases, or the probe, of one parametrised test; call ``check()``."""
    from softcheck.testing import Accuracy, ProbedAccuracy

    variant, dtype, judged = request.param
    common = _common(request)
    subject: Accuracy | ProbedAccuracy
    if isinstance(judged, str):
        subject = ProbedAccuracy(softcheck_session, variant, dtype, judged, subjects=_softcheck_subjects, **common)
    else:
        subject = Accuracy(softcheck_session, variant, dtype, judged, **common)
    request.node.stash.setdefault(_SUBJECTS, {})["accuracy"] = subject
    return subject


@pytest.fixture
def generated_accuracy(request: pytest.FixtureRequest, softcheck_session: "Session") -> "GeneratedAccuracy":
    """The variant and dtype of one parametrised test; call ``search()``."""
    from softcheck.testing import GeneratedAccuracy

    variant, dtype = request.param
    settings = settings_of(request.config)
    subject = GeneratedAccuracy(softcheck_session, variant, dtype, settings.generate, **_common(request))
    request.node.stash.setdefault(_SUBJECTS, {})["generated_accuracy"] = subject
    return subject


@pytest.fixture
def softcheck_report(request: pytest.FixtureRequest) -> "Callable[[], Report]":
    """A function that gives the report of what this test has judged so far, for those who want figures.

    A test asks for it beside ``accuracy`` or ``generated_accuracy`` and calls it once that has judged. The report has one row,
    of the test's variant and dtype: ``softcheck_report().variants[0].max_ulp``.
    """
    from softcheck.errors import UsageError

    begun = time.monotonic()

    def report() -> "Report":
        subjects = request.node.stash.get(_SUBJECTS, {}).values()
        judged = [subject.judged for subject in subjects if subject.has_judged]
        if not judged:
            raise UsageError("softcheck_report: this test has judged nothing yet; call accuracy.check() before it")
        return report_of(request.config, judged, time.monotonic() - begun)

    return report
