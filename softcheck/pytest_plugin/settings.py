"""Options of the pytest plugin: the command line, then the environment, then ``[tool.softcheck]`` in pyproject.toml."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

_LISTS = ("variant", "dtype", "family", "case", "probe", "corpus")
"""Settings that are lists of names."""
_DEVICES = ("auto", "cuda", "interpreter")
_FLAGS = {
    **dict.fromkeys(("1", "true", "t", "yes", "y", "on"), True),
    **dict.fromkeys(("0", "false", "f", "no", "n", "off"), False),
}
"""The words that the commands take for a flag in the environment."""


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


_OPTIONS: dict[str, dict[str, Any]] = {
    "variant": {"metavar": "NAME|FILE:FUNCTION"},
    "dtype": {"metavar": "DTYPE"},
    "family": {"metavar": "FAMILY"},
    "case": {"metavar": "GLOB"},
    "probe": {"metavar": "NAME", "help": "only these probes, and no saved cases"},
    "generate": {"metavar": "N", "help": "generated cases per variant and dtype; 50 if left out"},
    "seed": {
        "metavar": "N|random",
        "help": "number that all drawn inputs come from, 0 if left out; random draws one, which the header names",
    },
    "device": {
        "metavar": "|".join(_DEVICES),
        "help": "where the kernels run; auto, if left out: the GPU where there is one",
    },
    "require-all-sizes": {
        "action": "store_true",
        "default": None,
        "help": "fail, rather than skip, where a variant refuses a case for its size",
    },
    "html": {"metavar": "FILE", "help": "also write what was judged as a page that a browser shows, offline"},
}


def add_options(parser: pytest.Parser) -> None:
    """Adds options that override the marker's arguments; the environment's ``SOFTCHECK_<OPTION>`` stand for them."""
    group = parser.getgroup("softcheck", "softcheck: accuracy of softmax kernels")
    for name, attributes in _OPTIONS.items():
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
    from softcheck.cli.config import check_names, table_above, variable
    from softcheck.errors import UsageError

    found = table_above(config.rootpath)
    path, table = found or (config.rootpath, {})
    if not set(table) <= {*_LISTS, *_single()}:
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

    values: dict[str, Any] = {}
    for name, (default, expected, read) in _single().items():
        written, where = config.getoption(f"--softcheck-{name}"), f"--softcheck-{name}"
        if written is None:
            written, where = os.environ.get(variable(name)) or None, variable(name)
        if written is None:
            written, where = str(table.get(name, default)), f"{path}: [tool.softcheck] {name}"
        value = read(str(written))
        if value is None:
            raise UsageError(f"{where} is {written!r}, expected {expected}")
        values[name.replace("-", "_")] = value
    # Workers of pytest-xdist get the options, and so the number that was drawn.
    config.option.softcheck_seed = str(values["seed"])
    return Settings(chosen=chosen, defaults=defaults, **values)


def _single() -> dict[str, tuple[str, str, Callable[[str], Any]]]:
    """Settings of one value: the default, what is expected in words, and a function that gives None for anything else."""
    from softcheck.cli.options import EXPECTED, seed_of

    return {
        "device": ("auto", f"one of: {', '.join(_DEVICES)}", lambda text: text if text in _DEVICES else None),
        "generate": ("50", "a number, at least 1", lambda text: int(text) or None if text.isdecimal() else None),
        "require-all-sizes": ("false", "true or false", lambda text: _FLAGS.get(text.lower())),
        "seed": ("0", EXPECTED, seed_of),
    }
