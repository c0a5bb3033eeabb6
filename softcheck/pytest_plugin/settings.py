"""Options of the pytest plugin: the command line, then the environment, then ``[tool.softcheck]`` in pyproject.toml."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pytest

_LISTS = ("variant", "dtype", "family", "case", "probe", "corpus")
"""Settings that are lists of names."""
_SINGLE = ("device", "generate", "require-all-sizes", "seed")
"""Settings of one value."""


@dataclass(frozen=True)
class Settings:
    """Choices for this run, and pyproject.toml's defaults for settings that the marker leaves open."""

    chosen: dict[str, tuple[str, ...]]
    """Choices by the command line or the environment; they override the marker."""
    defaults: dict[str, tuple[str, ...]]
    device: Any
    generate: int
    seed: int
    require_all_sizes: bool


_SETTINGS: pytest.StashKey[Settings] = pytest.StashKey()


def add_options(parser: pytest.Parser) -> None:
    """Adds options that override the marker's arguments; the environment's ``SOFTCHECK_<OPTION>`` stand for them."""
    group = parser.getgroup("softcheck", "softcheck: accuracy of softmax kernels")
    words = tomllib.loads((Path(__file__).parents[1] / "cli" / "words.toml").read_text(encoding="utf-8"))
    for name, attributes in words["pytest"].items():
        many = {"action": "append", "default": []} if name in _LISTS else {}
        group.addoption(f"--softcheck-{name}", **many, **attributes)


def settings_of(config: pytest.Config) -> Settings:
    """The settings of this run, read once; raises pytest.UsageError for wrong ones, which pytest shows alone."""
    from softcheck.errors import UsageError

    if _SETTINGS not in config.stash:
        try:
            config.stash[_SETTINGS] = _read_settings(config)
        except UsageError as error:
            raise pytest.UsageError(f"softcheck: {error}") from None
    return config.stash[_SETTINGS]


def _read_settings(config: pytest.Config) -> Settings:
    import click

    from softcheck.cli.command import command
    from softcheck.cli.config import is_typed
    from softcheck.cli.main import cli
    from softcheck.cli.options import Dtypes, Seed
    from softcheck.errors import UsageError
    from softcheck.run.process import DeviceChoice

    @command("pytest plugin")
    def taken(
        *,
        variant: tuple[str, ...] = (),
        dtype: Dtypes = (),
        family: tuple[str, ...] = (),
        case: tuple[str, ...] = (),
        probe: tuple[str, ...] = (),
        corpus: tuple[str, ...] = (),
        device: DeviceChoice = "auto",
        generate: Annotated[int, click.IntRange(min=1)] = 50,
        require_all_sizes: bool = False,
        seed: Seed = 0,
    ) -> None:
        """The settings that stand as the options of commands do."""

    words: list[str] = []
    for name in (*_LISTS, *_SINGLE):
        given = config.getoption(f"--softcheck-{name}")
        every = given if isinstance(given, list) else [given]
        words += [f"--{name}" if each is True else f"--{name}={each}" for each in every if each]
    try:
        context = taken.make_context("pytest", words, click.Context(cli), folder=config.rootpath)
    except click.UsageError as error:
        raise UsageError(error.format_message().replace("'--", "'--softcheck-")) from None
    values = context.params
    # Workers of pytest-xdist get the options, and so the number that was drawn.
    config.option.softcheck_seed = str(values["seed"])
    return Settings(
        chosen={name: values[name] if is_typed(context, name) else () for name in _LISTS},
        defaults={name: values[name] for name in _LISTS},
        **{name.replace("-", "_"): values[name.replace("-", "_")] for name in _SINGLE},
    )


if TYPE_CHECKING:
    from softcheck.cases.case import Case

_ARGUMENTS = {"variants": "variant", "dtypes": "dtype", "families": "family", "corpora": "corpus", "probes": "probe"}
"""Arguments of the marker, and the settings that stand in their place."""
_WHAT_TO_WRITE = '@pytest.mark.accuracy(variants=["my_kernels.py:softmax"], dtypes=["float16"])'


def asked(config: pytest.Config, marker: pytest.Mark | None) -> dict[str, tuple[str, ...]]:
    """Returns what is chosen for this run, else by the marker, else by pyproject.toml, by setting; no names where all three leave one open.

    Dtypes and probes are named then too, but no probes where the marker chooses families or corpora alone. Raises UsageError
    for a missing marker and for anything else than names.
    """
    from oracles.formats import FORMATS
    from softcheck.cases.dtypes import known_dtype
    from softcheck.probes.registry import PROBES, check_name

    settings, of_marker = settings_of(config), _arguments(marker)
    found = {name: settings.chosen[name] or of_marker.get(name, settings.defaults[name]) for name in _LISTS}
    if "probe" not in of_marker:
        is_of_cases = bool(of_marker.keys() & {"family", "corpus"})
        found["probe"] = settings.chosen["probe"] if is_of_cases else found["probe"] or tuple(PROBES)
    named = tuple(map(known_dtype, found["dtype"] or FORMATS))
    return {**found, "dtype": named, "probe": tuple(map(check_name, found["probe"]))}


def _arguments(marker: pytest.Mark | None) -> dict[str, tuple[str, ...]]:
    from softcheck.errors import UsageError, near_matches

    if marker is None:
        raise UsageError(
            "the test asks for a fixture of softcheck and has no accuracy marker, which says what is judged; write above it "
            f"{_WHAT_TO_WRITE}, or @pytest.mark.accuracy alone for all built-in variants"
        )
    if marker.args:
        raise UsageError(f"the accuracy marker takes keywords, got {marker.args[0]!r}; write {_WHAT_TO_WRITE}")
    found: dict[str, tuple[str, ...]] = {}
    for name, value in marker.kwargs.items():
        if name not in _ARGUMENTS:
            raise UsageError(f"accuracy marker: unknown argument {name!r}; {near_matches(name, list(_ARGUMENTS))}")
        names = (value,) if isinstance(value, str) else value
        if not isinstance(names, (list, tuple)) or not all(isinstance(item, str) for item in names):
            raise UsageError(f"accuracy marker: {name}={value!r}; expected a list of names, as in {_WHAT_TO_WRITE}")
        if not names and name != "probes":
            raise UsageError(f"accuracy marker: {name} is empty; name at least one, or leave {name} out for all")
        found[_ARGUMENTS[name]] = tuple(names)
    return found


def judged(config: pytest.Config, names: dict[str, tuple[str, ...]]) -> list[Any]:
    """Returns saved cases and probes. If only cases or only probes are chosen for this run, the other is left out."""
    chosen = settings_of(config).chosen
    cases_chosen, probes_chosen = chosen["family"] or chosen["case"] or chosen["corpus"], chosen["probe"]
    saved = _saved(config, names) if cases_chosen or not probes_chosen else []
    probed = [
        pytest.param((spec, dtype, probe), id=f"{written}-{dtype}-probe-{probe}")
        for written, spec in _specs(config, names).items()
        for dtype in names["dtype"]
        for probe in (names["probe"] if probes_chosen or not cases_chosen else ())
    ]
    return saved + probed


def _saved(config: pytest.Config, names: dict[str, tuple[str, ...]]) -> list[Any]:
    from softcheck.cases.case import refuse_changed
    from softcheck.cases.corpus import default_corpora, load, select

    cases = select(
        load(names["corpus"] or default_corpora(of_operations=False)),
        dtypes=names["dtype"],
        families=names["family"],
        globs=names["case"],
    )
    refuse_changed(cases)
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.dtype, case.family), []).append(case)
    return [
        pytest.param((spec, dtype, tuple(chosen)), id=f"{written}-{dtype}-{family}")
        for written, spec in _specs(config, names).items()
        for (dtype, family), chosen in groups.items()
    ]


def generated(config: pytest.Config, names: dict[str, tuple[str, ...]]) -> list[Any]:
    """Returns a parameter for each variant and dtype."""
    return [
        pytest.param((spec, dtype), id=f"{written}-{dtype}")
        for written, spec in _specs(config, names).items()
        for dtype in names["dtype"]
    ]


def _specs(config: pytest.Config, names: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """Variants by the words of tests' ids; a path chosen for this run starts from the working folder, others from the root folder."""
    from softcheck.variants.registry import BUILTIN, resolve

    specs = names["variant"] or tuple(BUILTIN)
    if settings_of(config).chosen["variant"]:
        return {spec: resolve(spec).name for spec in specs}
    return {spec: _resolved(config.rootpath, spec) for spec in specs}


def _resolved(root: Path, spec: str) -> str:
    """The name of a variant of a marker or pyproject.toml; raises UsageError, which says where its path starts."""
    from softcheck.errors import UsageError
    from softcheck.variants.registry import resolve

    below = _below(root, spec)
    try:
        return resolve(spec if Path.cwd() == root else below).name
    except UsageError as error:
        if below == spec:
            raise
        where = f"a path in a marker starts from pytest's root folder {root}, not from the folder of the test"
        raise UsageError(f"{error}; {where}") from None


def _below(folder: Path, spec: str) -> str:
    """Returns a spec whose file, if it names one, is looked for in a folder."""
    from softcheck.variants.registry import split_call

    named, call = split_call(spec)
    location, colon, function = named.rpartition(":")
    is_file = location.endswith(".py") or "/" in location
    return f"{folder / Path(location).expanduser()}{colon}{function}{call}" if is_file else spec
