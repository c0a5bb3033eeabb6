"""Defaults from ``[tool.softcheck]`` in the nearest pyproject.toml, and the options that commands share."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from oracles.formats import FORMATS
from softcheck.errors import UsageError, near_matches

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


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
        defaults[str(known[key].name)] = _checked(path, known[key], key, value)
    context.default_map = {**(context.default_map or {}), **defaults}


def _checked(path: Path, parameter: click.Option, key: str, value: Any) -> Any:
    """A setting in the type of its option; one value stands for a list of one."""
    if parameter.is_flag or parameter.type.name == "boolean":
        fits = isinstance(value, bool)
    elif parameter.multiple:
        value = value if isinstance(value, list) else [value]
        fits = all(isinstance(item, str) for item in value)
    else:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = number if "integer" in parameter.type.name or "float" in parameter.type.name else isinstance(value, str)
    try:
        if fits:
            parameter.type_cast_value(click.Context(click.Command("report")), value)
            return value
        reason = f"expected {'a list of text' if parameter.multiple else 'true or false' if parameter.is_flag else parameter.type.name}"
    except click.BadParameter as error:
        reason = error.message
    raise UsageError(f"{path}: [tool.softcheck] {key} = {value!r}: {reason}")


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
