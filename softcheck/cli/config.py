"""Defaults from ``[tool.softcheck]`` in the nearest pyproject.toml, and the options that commands share."""

import math
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from oracles.formats import FORMATS
from softcheck.errors import UsageError, near_matches

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


LONGEST = 1e6
"""Seconds, 11 days: more than any wait needs, and less than clocks overflow at."""


class NumberRange(click.FloatRange):
    """A range that holds no NaN, which every comparison lets through."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; fails with click's own error."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is no number; expected {self._describe_range()}", param, ctx)
        return number


def option(*names: str, **attributes: Any) -> Callable[[Decorated], Decorated]:
    """A click option whose environment variable is ``SOFTCHECK_`` and its long name in capitals."""
    long = next(name for name in names if name.startswith("--")).split("/")[0]
    variable = "SOFTCHECK_" + long.removeprefix("--").replace("-", "_").upper()
    return click.option(*names, envvar=variable, show_envvar=True, **attributes)


def dtype_option(
    _context: click.Context, _option: click.Parameter, value: str | tuple[str, ...]
) -> str | tuple[str, ...]:
    """Callback of --dtype, given once or many times; raises UsageError with near matches for an unknown one."""
    for name in (value,) if isinstance(value, str) else value:
        if name not in FORMATS:
            raise UsageError(f"unknown dtype {name!r}; {near_matches(name, list(FORMATS))}")
    return value if isinstance(value, str) else tuple(dict.fromkeys(value))


def read_defaults(context: click.Context, command: click.Command) -> None:
    """Puts ``[tool.softcheck]`` below environment and command line, as defaults of a command's options.

    Raises UsageError for an unknown key: a misspelt setting that is silently dropped would weaken a check unseen.
    """
    found = _table()
    if found is None:
        return
    path, table = found
    known = {p.opts[-1].removeprefix("--"): p for p in command.params if isinstance(p, click.Option)}
    defaults: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            raise UsageError(f"{path}: [tool.softcheck] has no setting {key!r}; {near_matches(key, list(known))}")
        defaults[str(known[key].name)] = checked(f"{path}: [tool.softcheck] {key}", known[key], value)
    context.default_map = {**(context.default_map or {}), **defaults}


def checked(where: str, parameter: click.Option, value: Any) -> Any:
    """A setting that a file gives, in the type of its option; one value stands for a list of one.

    Raises UsageError, which begins with ``where``, for one that the option does not take.
    """
    if parameter.is_flag or parameter.type.name == "boolean":
        fits, expected = isinstance(value, bool), "true or false"
    elif parameter.multiple:
        value = value if isinstance(value, list) else [value]
        fits, expected = all(isinstance(item, str) for item in value), "a list of text"
    else:
        expected = parameter.type.name
        wanted = int if "integer" in expected else int | float if "float" in expected else str
        fits = isinstance(value, wanted) and not isinstance(value, bool)
    reason = f"expected {expected}"
    try:
        if fits:
            parameter.type_cast_value(click.Context(click.Command("report")), value)
            return value
    except click.BadParameter as error:
        reason = error.message
    except OverflowError:
        reason = "expected a smaller number"
    raise UsageError(f"{where} = {value!r}: {reason}")


def _table() -> tuple[Path, dict[str, Any]] | None:
    for folder in (Path.cwd(), *Path.cwd().parents):
        path = folder / "pyproject.toml"
        if not path.is_file():
            continue
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise UsageError(f"{path}: {error}; expected a TOML file that can be read") from None
        tools = content.get("tool", {})
        table = tools.get("softcheck") if isinstance(tools, dict) else None
        if table is not None and not isinstance(table, dict):
            raise UsageError(f"{path}: [tool.softcheck] is {table!r}, expected a table of settings")
        return None if table is None else (path, table)
    return None


class ConfiguredCommand(click.Command):
    """A command whose option defaults may stand in pyproject.toml."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Reads the configuration before the options are parsed."""
        defaults = click.Context(self, info_name=info_name, parent=parent)
        read_defaults(defaults, self)
        return super().make_context(info_name, args, parent, default_map=defaults.default_map, **extra)
