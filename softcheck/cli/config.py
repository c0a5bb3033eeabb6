"""Settings of every command: the environment, and ``[tool.softcheck]`` in the nearest pyproject.toml.

An option ``--max-slowdown`` is the variable ``SOFTCHECK_MAX_SLOWDOWN`` and the key ``max-slowdown``. Options on the command
line win over the environment, the environment over pyproject.toml, and that over the options' own defaults.
"""

import math
import os
import tomllib
from collections.abc import Iterator
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

import click

from softcheck.errors import UsageError, near_matches

PREFIX = "SOFTCHECK_"

INTERNAL = frozenset({"SOFTCHECK_UPDATE_GOLDEN"})
"""Variables that are no option's: whether softcheck's own tests save their texts."""

LONGEST = 1e6
"""Seconds, 11 days: more than any wait needs, and less than clocks overflow at."""


@cache
def words() -> dict[str, dict[str, Any]]:
    """The tables of ``words.toml``."""
    return tomllib.loads((Path(__file__).parent / "words.toml").read_text(encoding="utf-8"))


class NumberRange(click.FloatRange):
    """A range that holds no NaN, which every comparison lets through."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; fails with click's own error."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is no number; expected {self._describe_range()}", param, ctx)
        return number


def variable(setting: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + setting.replace("-", "_").upper()


def settings_of(command: click.Command) -> dict[str, click.Parameter]:
    """Maps names of settings to a command's parameters; for a group, to the parameters of all its commands."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        inner = (command.get_command(context, name) for name in command.list_commands(context))
        return {key: value for one in inner if one is not None for key, value in settings_of(one).items()}
    return dict(_settings(command))


def _settings(command: click.Command) -> Iterator[tuple[str, click.Parameter]]:
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield parameter.opts[-1].removeprefix("--"), parameter
        elif isinstance(parameter.envvar, str):
            yield parameter.envvar.removeprefix(PREFIX).lower().replace("_", "-"), parameter


def unknown_variables(group: click.Command) -> list[str]:
    """A sentence for each environment variable with softcheck's prefix that is no setting of any command."""
    found = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in INTERNAL)
    known = [variable(setting) for setting in settings_of(group)] if found else []
    return [
        f"the environment variable {name} is no setting; {near_matches(name, known, _HINT)}"
        for name in found
        if name not in known
    ]


_HINT = "see softcheck COMMAND --help"
"""Stands where no setting is near: the list of all is long."""


def as_written(parameter: click.Parameter, value: Any) -> str | list[str]:
    """A file's setting as text, as the command line would hold it: click then refuses what the option does not take."""
    many = parameter.nargs != 1 or getattr(parameter, "multiple", False)
    items = value if isinstance(value, list) else [value]
    if many:
        return list(map(str, items))
    return str(items[0] if len(items) == 1 else value)


def table_above(start: Path) -> tuple[Path, dict[str, Any]] | None:
    """``[tool.softcheck]`` of the nearest pyproject.toml, with its path; None where there is none. Raises UsageError if it can't be read."""
    for folder in (start, *start.parents):
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


_HELP_ALL = "Show all options, and the variables of the environment that stand for them."


def _help_all(ctx: click.Context, _option: click.Parameter, value: bool) -> None:  # noqa: FBT001 - as click calls it
    if value and not ctx.resilient_parsing:
        ctx.meta[_HELP_ALL] = True
        click.echo(ctx.get_help())
        ctx.exit()


class SuggestingGroup(click.Group):
    """A group that answers a misspelt command with the near ones."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is named first; raises click's UsageError where there is none of that name."""
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {args[0]!r}; {near_matches(args[0], known)}", ctx)
        return super().resolve_command(ctx, args)


class ConfiguredCommand(click.Command):
    """A command whose options may also stand in the environment and in pyproject.toml."""

    def __init__(self, *arguments: Any, **attributes: Any) -> None:
        """Names the environment variable of each option."""
        super().__init__(*arguments, **attributes)
        for setting, parameter in _settings(self):
            if isinstance(parameter, click.Option):
                parameter.envvar, parameter.show_envvar = variable(setting), True

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """All parameters, ``--help-all`` among them where ``--help`` shows the options that matter most."""
        everything = click.Option(
            ["--help-all"], is_flag=True, expose_value=False, is_eager=True, callback=_help_all, help=_HELP_ALL
        )
        return [*super().get_params(ctx), *([everything] if self.name in words()["groups"] else [])]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options in groups, of which ``--help`` shows the first, without the variables of the environment."""
        groups = words()["groups"].get(self.name or "")
        if groups is None:
            super().format_options(ctx, formatter)
            return
        options = {each.opts[-1].removeprefix("--"): each for each in self.get_params(ctx) if each.opts[-1][0] == "-"}
        is_all = _HELP_ALL in ctx.meta
        for title, names in list(groups.items())[: None if is_all else 1]:
            shown = [copy(options[name]) for name in names]
            for option in shown:
                option.show_envvar = is_all  # type: ignore[attr-defined]
            with formatter.section(title):
                formatter.write_dl([record for option in shown if (record := option.get_help_record(ctx))])

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        *,
        folder: Path | None = None,
        **extra: Any,
    ) -> click.Context:
        """Reads the configuration above the ``folder``, by default the working one, then the options.

        Raises UsageError for an unknown key, or for a value that the option does not take and nothing else replaces.
        """
        found = None if extra.get("resilient_parsing") else table_above(folder or Path.cwd())
        path, table = found or (Path(), {})
        own = {key: parameter for key, parameter in _settings(self) if key in table}
        known = (
            [] if len(own) == len(table) else list(settings_of(self if parent is None else parent.find_root().command))
        )
        for key in table.keys() - own.keys() - set(known):
            # A misspelt setting, silently dropped, would weaken a check.
            raise UsageError(f"{path}: [tool.softcheck] has no setting {key!r}; {near_matches(key, known, _HINT)}")
        defaults = {str(parameter.name): as_written(parameter, table[key]) for key, parameter in own.items()}
        try:
            return super().make_context(info_name, args, parent, default_map=defaults, **extra)
        except click.BadParameter as error:
            for key, parameter in own.items():
                if parameter is error.param and error.ctx and not is_typed(error.ctx, str(parameter.name)):
                    raise UsageError(f"{path}: [tool.softcheck] {key} = {table[key]!r}: {error.message}") from None
            raise


def is_typed(context: click.Context, name: str) -> bool:
    """True if an option's value was typed for this run or stands in the environment."""
    sources = click.core.ParameterSource
    return context.get_parameter_source(name) in (sources.COMMANDLINE, sources.ENVIRONMENT)
