"""Commands made of functions: each parameter is an option of its name, and ``words.toml`` says what the option is for.

An annotation may hold a type of click, a dictionary of the option's further attributes, ``Argument`` or ``Gathered``.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click

from softcheck.cli.config import ConfiguredCommand, NumberRange, words
from softcheck.errors import UsageError


@dataclass(frozen=True, slots=True)
class Argument:
    """Marks a parameter that stands without the name of an option."""

    metavar: str
    envvar: str | None = None


@dataclass(frozen=True, slots=True)
class Gathered:
    """Marks a parameter that is made of several options, which are the parameters of ``make``; ``types`` replace types of theirs."""

    make: Callable[..., object]
    types: Mapping[str, "click.ParamType[Any]"] = field(default_factory=dict)


class Word(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """The type of a text that a function reads, which raises UsageError or click's BadParameter for a wrong one."""

    def __init__(self, read: Callable[[Any], Any], name: str = "text") -> None:
        """``name`` is the name of the type in help."""
        self.read, self.name = read, name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns what the function reads; fails with click's own error."""
        try:
            return self.read(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


def command(name: str, within: click.Group | None = None) -> Callable[[Callable[..., None]], click.Command]:
    """Makes a function the command of this name, of a group if one is given."""

    def decorate(function: Callable[..., None]) -> click.Command:
        made = ConfiguredCommand(
            name,
            params=list(_parameters(function, _words_of(name), {})),
            callback=lambda **given: _called(function, given),
            help=inspect.getdoc(function),
        )
        if within is not None:
            within.add_command(made)
        return made

    return decorate


@cache
def _words_of(command: str) -> dict[str, dict[str, Any]]:
    """Attributes of the options of a command, by name: a help alone, or a table."""
    found = words()
    named = {**found["all"], **found.get(command, {})}
    return {name: {"help": said} if isinstance(said, str) else said for name, said in named.items()}


def _read(parameter: inspect.Parameter) -> tuple[Any, tuple[Any, ...], Gathered | None]:
    """The type of a parameter, its marks, and the options that it gathers if it does."""
    marks = getattr(parameter.annotation, "__metadata__", ())
    kind = parameter.annotation.__origin__ if marks else parameter.annotation
    return kind, marks, next((mark for mark in marks if isinstance(mark, Gathered)), None)


def _parameters(
    function: Callable[..., object], words: Mapping[str, Any], types: Mapping[str, "click.ParamType[Any]"]
) -> Iterator[click.Parameter]:
    for parameter in inspect.signature(function).parameters.values():
        kind, marks, gathered = _read(parameter)
        if gathered is not None:
            yield from _parameters(gathered.make, words, gathered.types)
            continue
        name, default = parameter.name, parameter.default
        is_many = get_origin(kind) is tuple
        inner = kind if get_origin(kind) is Literal else next(iter(get_args(kind)), kind)
        own = [types[name]] if name in types else [mark for mark in marks if isinstance(mark, click.ParamType)]
        attributes: dict[str, Any] = {"type": own[0] if own else _type(inner)}
        argument = next((mark for mark in marks if isinstance(mark, Argument)), None)
        if argument is not None:
            attributes |= {"nargs": -1 if is_many else 1, "required": default is parameter.empty and not is_many}
            yield click.Argument([name], metavar=argument.metavar, envvar=argument.envvar, **attributes)
            continue
        option = name.rstrip("_").replace("_", "-")
        attributes |= words.get(option, {})
        for mark in marks:
            attributes |= mark if isinstance(mark, dict) else {}
        if is_many:
            attributes |= {"multiple": True, "callback": lambda _context, _option, values: tuple(dict.fromkeys(values))}
        elif default is not parameter.empty and default is not None and inner is not bool:
            attributes |= {"default": default, "show_default": default != "-"}
        if inner is bool:
            del attributes["type"]
            attributes |= {"is_flag": True} if default is False else {"default": default}
            option = option if default is False else f"{option}/--no-{option}"
        yield click.Option([name, f"--{option}"], **attributes)


def _type(kind: Any) -> Any:
    """The type of click for a type of Python."""
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    return {int: click.IntRange(min=0), float: NumberRange(min=0), Path: click.Path(path_type=Path)}.get(kind, kind)


def _called(function: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Calls a function with options by name, those that it has gathered made into one."""
    arguments = {}
    for name, parameter in inspect.signature(function).parameters.items():
        gathered = _read(parameter)[2]
        arguments[name] = given[name] if gathered is None else _called(gathered.make, given)
    return function(**arguments)
