"""pytest plugin: the ``accuracy`` marker and its fixtures. Loads nothing heavy until a test asks for one.

A test suite uses it so::

    @pytest.mark.accuracy(variants=["my_kernels.py:softmax"], dtypes=["float16"])  # a path from the root folder
    def test_softmax(accuracy):
        accuracy.check()

    @pytest.mark.accuracy(variants=["my_kernels.py:softmax"], dtypes=["float16"])
    def test_softmax_on_generated_cases(generated_accuracy):
        generated_accuracy.search()

which become one test per variant, dtype and case family and one per variant, dtype and probe; and one per variant and dtype.
A test that passes without having called ``check()`` or ``search()`` has judged nothing, and fails. At the end stands one table of
all that the tests have judged. A test that wants figures asks for ``softcheck_report`` beside one of these fixtures.
"""

import os
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from softcheck.pytest_table import SuiteTable, attach

if TYPE_CHECKING:
    from softcheck.cases.case import Case
    from softcheck.report.model import Report
    from softcheck.report.suite import JudgedTest
    from softcheck.run.session import Session
    from softcheck.testing import Accuracy, GeneratedAccuracy, ProbedAccuracy, Told

_MARKER = (
    "accuracy(variants, dtypes, families, corpora, probes): judge softmax variants on the corpora and put them through "
    "the probes; every argument is a list or a single name and may be left out (then: the built-in variants, every dtype, "
    "family, corpus and probe; no probes where families or corpora are chosen and probes are not). Needs the `accuracy` or "
    "the `generated_accuracy` fixture"
)
_ARGUMENTS = ("variants", "dtypes", "families", "corpora", "probes")
_LISTS = ("variant", "dtype", "family", "case", "probe", "corpus")
"""Settings that are lists of names."""
_DEVICES = ("auto", "cuda", "interpreter")
_FLAGS = {
    **dict.fromkeys(("1", "true", "t", "yes", "y", "on"), True),
    **dict.fromkeys(("0", "false", "f", "no", "n", "off"), False),
}
"""The words that the commands take for a flag in the environment."""
_FIXTURES = {"accuracy": "check", "generated_accuracy": "search"}
"""Fixtures, each with the method that judges."""

_WHAT_TO_WRITE = '@pytest.mark.accuracy(variants=["my_kernels.py:softmax"], dtypes=["float16"])'

_SUBJECTS: "pytest.StashKey[dict[str, Accuracy | ProbedAccuracy | GeneratedAccuracy]]" = pytest.StashKey()
"""Objects that the fixtures of one test handed out."""


@dataclass(frozen=True)
class _Settings:
    """Choices for this run, and pyproject.toml's defaults for settings that the marker leaves open."""

    chosen: dict[str, tuple[str, ...]]
    """Choices by the command line or the environment; they override the marker."""
    defaults: dict[str, tuple[str, ...]]
    device: Any
    examples: int
    seed: int
    require_all_sizes: bool


_SETTINGS: pytest.StashKey[_Settings] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options that override the marker's arguments; the environment's ``SOFTCHECK_<OPTION>`` stand for them."""
    group = parser.getgroup("softcheck", "softcheck: accuracy of softmax kernels")
    group.addoption("--softcheck-variant", action="append", default=[], metavar="NAME|FILE:FUNCTION")
    group.addoption("--softcheck-dtype", action="append", default=[], metavar="DTYPE")
    group.addoption("--softcheck-family", action="append", default=[], metavar="FAMILY")
    group.addoption("--softcheck-case", action="append", default=[], metavar="GLOB")
    group.addoption(
        "--softcheck-probe", action="append", default=[], metavar="NAME", help="only these probes, and no saved cases"
    )
    group.addoption("--softcheck-generate", metavar="N", help="generated cases per variant and dtype; 50 if left out")
    group.addoption(
        "--softcheck-seed",
        metavar="N|random",
        help="number that all drawn inputs come from, 0 if left out; random draws one, which the header names",
    )
    group.addoption(
        "--softcheck-device",
        metavar="|".join(_DEVICES),
        help="where the kernels run; auto, if left out: the GPU where there is one",
    )
    group.addoption(
        "--softcheck-require-all-sizes",
        action="store_true",
        default=None,
        help="fail, rather than skip, where a variant refuses a case for its size",
    )
    group.addoption(
        "--softcheck-html", metavar="FILE", help="also write what was judged as a page that a browser shows, offline"
    )


def _settings(config: pytest.Config) -> _Settings:
    """The settings of this run, read once; raises pytest.UsageError for wrong ones, which pytest shows alone."""
    from softcheck.errors import UsageError

    if _SETTINGS not in config.stash:
        try:
            config.stash[_SETTINGS] = _read_settings(config)
        except UsageError as error:
            raise pytest.UsageError(f"softcheck: {error}") from None
    return config.stash[_SETTINGS]


def _read_settings(config: pytest.Config) -> _Settings:
    from softcheck.cli.config import check_names, table_above, variable
    from softcheck.errors import UsageError

    found = table_above(config.rootpath)
    path, table = found or (config.rootpath, {})
    if not set(table) <= {*_LISTS, "generate", "seed", "device", "require-all-sizes"}:
        from softcheck.cli.main import cli

        check_names(path, table, cli)
    defaults = {}
    for name in _LISTS:
        value = table.get(name, [])
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(item, str) for item in names):
            raise UsageError(f"{path}: [tool.softcheck] {name} = {value!r}: expected a list of text")
        defaults[name] = tuple(names)
    chosen = {
        name: tuple(config.getoption(f"--softcheck-{name}", []) or os.environ.get(variable(name), "").split())
        for name in _LISTS
    }

    def single(name: str, default: str) -> tuple[str, str]:
        """A setting and where it comes from."""
        option = config.getoption(f"--softcheck-{name}")
        if option is not None:
            return option, f"--softcheck-{name}"
        if value := os.environ.get(variable(name)):
            return value, variable(name)
        return str(table.get(name, default)), f"{path}: [tool.softcheck] {name}"

    device, where = single("device", "auto")
    if device not in _DEVICES:
        raise UsageError(f"{where} is {device!r}, expected one of: {', '.join(_DEVICES)}")
    examples, where = single("generate", "50")
    if not examples.isdecimal() or int(examples) < 1:
        raise UsageError(f"{where} is {examples!r}, expected a number, at least 1")
    promised, where = single("require-all-sizes", "false")
    if str(promised).lower() not in _FLAGS:
        raise UsageError(f"{where} is {promised!r}, expected true or false")
    return _Settings(
        chosen=chosen,
        defaults=defaults,
        device=device,
        examples=int(examples),
        seed=_seed(config, *single("seed", "0")),
        require_all_sizes=_FLAGS[str(promised).lower()],
    )


def _seed(config: pytest.Config, written: str, where: str) -> int:
    from softcheck.cli.seeding import EXPECTED, seed_of
    from softcheck.errors import UsageError

    seed = seed_of(written)
    if seed is None:
        raise UsageError(f"{where} is {written!r}, expected {EXPECTED}")
    # Workers of pytest-xdist get the options, and so the number that was drawn.
    config.option.softcheck_seed = str(seed)
    return seed


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker with its arguments, and the table in the process that reports."""
    config.addinivalue_line("markers", _MARKER)
    if not hasattr(config, "workerinput"):

        def draw(judged: "list[JudgedTest]", seconds: float) -> "Report":
            return _report(config, judged, seconds)

        config.pluginmanager.register(SuiteTable(draw, _page(config)), "softcheck_table")


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


def _report(config: pytest.Config, judged: "list[JudgedTest]", seconds: float) -> "Report":
    """The report of what tests have judged, one at least, in so many seconds."""
    from softcheck.report.suite import suite_report

    settings = _settings(config)
    return suite_report(
        judged,
        command=["pytest", *map(str, config.invocation_params.args)],
        seed=settings.seed,
        require_all_sizes=settings.require_all_sizes,
        seconds=seconds,
    )


def pytest_report_header(config: pytest.Config) -> str:
    """Version, device, seed and what the run is narrowed to."""
    from softcheck import __version__

    settings = _settings(config)
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
    """Makes one test per variant, dtype and family or probe for ``accuracy``.

    For ``generated_accuracy``, it makes one test per variant and dtype.
    """
    wanted = set(_FIXTURES) & set(metafunc.fixturenames)
    if not wanted:
        return
    from softcheck.errors import UsageError

    marker = metafunc.definition.get_closest_marker("accuracy")
    try:
        asked = _arguments(marker)
        if "accuracy" in wanted:
            metafunc.parametrize("accuracy", _judged(metafunc.config, asked), indirect=True)
        if "generated_accuracy" in wanted:
            metafunc.parametrize("generated_accuracy", _generated(metafunc.config, asked), indirect=True)
    except UsageError as error:
        # pytest shows only the message of this exception.
        raise pytest.Collector.CollectError(f"{metafunc.definition.nodeid}: {error}") from None


def _arguments(marker: pytest.Mark | None) -> dict[str, tuple[str, ...]]:
    """The marker's arguments, each a tuple of names; raises UsageError for a missing marker and for anything else."""
    from softcheck.errors import UsageError, near_matches

    if marker is None:
        raise UsageError(
            "the test asks for a fixture of softcheck and has no accuracy marker, which says what is judged; write above it "
            f"{_WHAT_TO_WRITE}, or @pytest.mark.accuracy alone for all built-in variants"
        )
    if marker.args:
        raise UsageError(f"the accuracy marker takes keywords, got {marker.args[0]!r}; write {_WHAT_TO_WRITE}")
    asked: dict[str, tuple[str, ...]] = {}
    for name, value in marker.kwargs.items():
        if name not in _ARGUMENTS:
            raise UsageError(f"accuracy marker: unknown argument {name!r}; {near_matches(name, list(_ARGUMENTS))}")
        names = (value,) if isinstance(value, str) else value
        if not isinstance(names, (list, tuple)) or not all(isinstance(item, str) for item in names):
            raise UsageError(f"accuracy marker: {name}={value!r}; expected a list of names, as in {_WHAT_TO_WRITE}")
        if not names and name != "probes":
            raise UsageError(f"accuracy marker: {name} is empty; name at least one, or leave {name} out for all")
        asked[name] = tuple(names)
    return asked


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
    """True if a test itself, not only its class or module, has the marker, and the marker is softcheck's.

    A project that registers a marker of the same name means its own by it.
    """
    registered = {str(line) for line in item.config.getini("markers")} - {_MARKER}
    is_theirs = any(line.replace("(", ":").split(":")[0].strip() == "accuracy" for line in registered)
    return not is_theirs and any(mark.name == "accuracy" for mark in item.own_markers)


def _judged(config: pytest.Config, asked: dict[str, tuple[str, ...]]) -> list[Any]:
    """Returns saved cases and probes. If only cases or only probes are chosen for this run, the other is left out."""
    chosen = _settings(config).chosen
    cases_chosen, probes_chosen = chosen["family"] or chosen["case"] or chosen["corpus"], chosen["probe"]
    saved = _saved(config, asked) if cases_chosen or not probes_chosen else []
    return saved + (_probed(config, asked) if probes_chosen or not cases_chosen else [])


def _names(config: pytest.Config, setting: str, of_marker: tuple[str, ...] | None) -> tuple[str, ...]:
    """Names chosen for this run, else by the marker, else by pyproject.toml; empty if all three leave it open."""
    settings = _settings(config)
    return settings.chosen[setting] or (settings.defaults[setting] if of_marker is None else of_marker)


def _probed(config: pytest.Config, asked: dict[str, tuple[str, ...]]) -> list[Any]:
    from softcheck.probes.registry import PROBES, check_name

    of_marker = asked.get("probes")
    if of_marker is None and (asked.get("families") or asked.get("corpora")):
        of_marker = ()
    names = _names(config, "probe", of_marker) or (tuple(PROBES) if of_marker is None else ())
    return [
        pytest.param((spec, dtype, probe), id=f"{written}-{dtype}-probe-{probe}")
        for written, spec in _specs(config, asked).items()
        for dtype in _dtypes(config, asked)
        for probe in map(check_name, names)
    ]


def _saved(config: pytest.Config, asked: dict[str, tuple[str, ...]]) -> list[Any]:
    from softcheck.cases.check import refuse_changed
    from softcheck.cases.corpus import default_corpora, load
    from softcheck.cases.selection import select

    cases = select(
        load(_names(config, "corpus", asked.get("corpora")) or default_corpora()),
        dtypes=_dtypes(config, asked),
        families=_names(config, "family", asked.get("families")),
        globs=_names(config, "case", None),
    )
    refuse_changed(cases)
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.dtype, case.family), []).append(case)
    return [
        pytest.param((spec, dtype, tuple(chosen)), id=f"{written}-{dtype}-{family}")
        for written, spec in _specs(config, asked).items()
        for (dtype, family), chosen in groups.items()
    ]


def _generated(config: pytest.Config, asked: dict[str, tuple[str, ...]]) -> list[Any]:
    return [
        pytest.param((spec, dtype), id=f"{written}-{dtype}")
        for written, spec in _specs(config, asked).items()
        for dtype in _dtypes(config, asked)
    ]


def _specs(config: pytest.Config, asked: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """Variants by the words that name them in tests' ids.

    A path that is chosen for this run starts from the folder that pytest was called in, one in a marker or in
    pyproject.toml from the root folder.
    """
    from softcheck.variants.registry import BUILTIN, resolve

    specs = _names(config, "variant", asked.get("variants")) or tuple(BUILTIN)
    if _settings(config).chosen["variant"] or Path.cwd() == config.rootpath:
        return {spec: resolve(spec).name for spec in specs}
    return {spec: resolve(_below(config.rootpath, spec)).name for spec in specs}


def _below(folder: Path, spec: str) -> str:
    """Returns a spec whose file, if it names one, is looked for in a folder."""
    from softcheck.variants.registry import split_call

    named, call = split_call(spec)
    location, colon, function = named.rpartition(":")
    is_file = location.endswith(".py") or "/" in location
    return f"{folder / Path(location).expanduser()}{colon}{function}{call}" if is_file else spec


def _dtypes(config: pytest.Config, asked: dict[str, tuple[str, ...]]) -> list[str]:
    from oracles.formats import FORMATS
    from softcheck.cases.dtypes import known_dtype

    return [known_dtype(name) for name in _names(config, "dtype", asked.get("dtypes")) or FORMATS]


@pytest.fixture(scope="session")
def softcheck_session(request: pytest.FixtureRequest) -> "Iterator[Session]":
    """A warm worker on the chosen device; a kernel that kills it costs one test."""
    from softcheck.errors import SoftcheckError
    from softcheck.run.session import Session

    try:
        session = Session(_settings(request.config).device, jobs=1)
    except SoftcheckError as error:
        pytest.exit(f"softcheck: {error}", returncode=error.exit_code)
    yield session
    session.close()


_TOLD: "pytest.StashKey[dict[tuple[str, str], Told]]" = pytest.StashKey()
"""Causes that tests have failed of so far, by variant and dtype."""


def _common(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Arguments of every subject beside its variant."""
    settings = _settings(request.config)
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
    settings = _settings(request.config)
    subject = GeneratedAccuracy(softcheck_session, variant, dtype, settings.examples, **_common(request))
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
        return _report(request.config, judged, time.monotonic() - begun)

    return report
