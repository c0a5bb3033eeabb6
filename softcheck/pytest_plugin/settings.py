"""Options of the pytest plugin: the command line, then the environment, then ``[tool.softcheck]`` in pyproject.toml."""

import os
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
    examples: int
    seed: int
    require_all_sizes: bool


_SETTINGS: pytest.StashKey[Settings] = pytest.StashKey()


def add_options(parser: pytest.Parser) -> None:
    """Adds options that override the marker's arguments; the environment's ``SOFTCHECK_<OPTION>`` stand for them."""
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
    return Settings(
        chosen=chosen,
        defaults=defaults,
        device=device,
        examples=int(examples),
        seed=_seed(config, *single("seed", "0")),
        require_all_sizes=_FLAGS[str(promised).lower()],
    )


def _seed(config: pytest.Config, written: str, where: str) -> int:
    from softcheck.cli.options import EXPECTED, seed_of
    from softcheck.errors import UsageError

    seed = seed_of(written)
    if seed is None:
        raise UsageError(f"{where} is {written!r}, expected {EXPECTED}")
    # Workers of pytest-xdist get the options, and so the number that was drawn.
    config.option.softcheck_seed = str(seed)
    return seed
