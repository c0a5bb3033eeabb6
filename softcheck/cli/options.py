"""Options that several commands share, with the same words, and what ``--save`` does."""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from softcheck.cases.case import Case
from softcheck.cases.corpus_edit import add
from softcheck.errors import UsageError
from softcheck.operations.registry import check_name
from softcheck.variants.place import refuse_misnamed
from softcheck.variants.registry import BUILTIN_OF, resolve, with_call, with_declared

NOTHING_RAN = 3
"""Exit code where nothing was run."""

INTERRUPTED = 130
"""Exit code after Ctrl-C."""

Command = TypeVar("Command", bound=Callable[..., object])

corpora_argument = click.argument("corpora", nargs=-1, metavar="[NAME|FOLDER]...", envvar="SOFTCHECK_CORPUS")

device_option = click.option(
    "--device", type=click.Choice(["auto", "cuda", "interpreter"]), default="auto", show_default=True
)

output_option = click.option(
    "--output", default="-", metavar="FILE|-", help="Where the report goes; standard output if left out."
)


def format_option(names: Iterable[str]) -> Callable[[Command], Command]:
    """``--format``, one of these names, as the parameter ``output_format``."""
    return click.option("--format", "output_format", type=click.Choice(list(names)), default="table", show_default=True)


_BACKWARD = "softcheck.backward"


def _keep_backward(context: click.Context, _option: click.Parameter, value: bool | None) -> None:  # noqa: FBT001 - click's
    context.meta[_BACKWARD] = value


def variant_options(*, built_in: bool = False, required: bool = True) -> Callable[[Command], Command]:
    """``VARIANT...``, ``--variant``, ``--operation``, ``--call``, ``--declare`` and ``--backward``; the command gets the chosen ``names``.

    Each name holds its call and its promises. If none is chosen, the names are those of all variants that are ``built_in`` for the
    operation; else, if one is ``required``, click's UsageError is raised. UsageError is raised for an unknown variant, operation or
    call.
    """
    options = (
        click.argument("specs", nargs=-1, metavar="[NAME|FILE:FUNCTION]..."),
        click.option(
            "--variant",
            multiple=True,
            metavar="NAME|FILE:FUNCTION",
            help="The same as an option, as often as there are variants.",
        ),
        click.option(
            "--operation",
            metavar="NAME",
            callback=_checked,
            help="What functions compute that do not say so themselves; left out, their answers or names tell, else softmax. See softcheck list operations.",
        ),
        click.option(
            "--call",
            metavar="CALL",
            help="How the functions are called, as in 'f(x, dim=-1)', 'f(out, x)' or 'f(x4)[0]'.",
        ),
        click.option(
            "--declare",
            metavar="PROMISES",
            help="What the functions promise, in place of what they declare: 'layouts=contiguous,empty=False,max_elements=2**31'.",
        ),
        click.option(
            "--backward/--no-backward",
            default=None,
            expose_value=False,
            callback=_keep_backward,
            help="Promise gradients, or leave them alone; left out, they are judged where the output requires one.",
        ),
    )

    def decorate(function: Command) -> Command:
        @wraps(function)
        def named(
            *,
            specs: tuple[str, ...],
            variant: tuple[str, ...],
            operation: str | None,
            call: str | None,
            declare: str | None,
            **others: Any,
        ) -> object:
            otherwise = tuple(BUILTIN_OF.get(operation or "softmax", ())) if built_in else ()
            chosen = _chosen(click.get_current_context(), specs, variant, operation, call, declare, otherwise)
            if required and not chosen:
                raise click.UsageError(
                    "name a variant to judge: a built-in name, FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION",
                    click.get_current_context(),
                )
            return function(names=tuple(dict.fromkeys(resolve(spec).name for spec in chosen)), **others)

        decorated: Any = named
        for option in reversed(options):
            decorated = option(decorated)
        return cast("Command", decorated)

    return decorate


def _checked(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        check_name(value)
    return value


def _chosen(
    context: click.Context,
    specs: Sequence[str],
    variant: Sequence[str],
    operation: str | None,
    call: str | None,
    declare: str | None,
    otherwise: Sequence[str],
) -> Sequence[str]:
    """The chosen variants as they are named.

    What stands on the command line without ``--variant`` counts for the setting ``variant``: variants from the environment
    or pyproject.toml are left out beside it.
    """
    if specs:
        typed = context.get_parameter_source("variant") is click.core.ParameterSource.COMMANDLINE
        variant = (*specs, *(variant if typed else ()))
    for spec in variant:
        refuse_misnamed(spec)
    if call is not None:
        variant = tuple(with_call(spec, call) for spec in variant)
    # Built-in variants say themselves what they compute, but a parameter is one of an operation.
    promises = [f"operation={operation}"] if operation is not None and (variant or declare) else []
    promises += [declare] if declare else []
    if (backward := context.meta.get(_BACKWARD)) is not None:
        promises.append(f"backward={backward}")
    variant = variant or otherwise
    if promises:
        variant = tuple(with_declared(spec, ",".join(promises)) for spec in variant)
    if specs or call is not None or promises or operation is not None:
        # A journal keeps them with the other options.
        context.params["variant"] = variant
        context.set_parameter_source("variant", click.core.ParameterSource.COMMANDLINE)
    return variant


def save_case(case: Case, target: Path) -> None:
    """Adds a case to a file of the regressions, as ``--save`` does, and says that it was saved, or why not."""
    try:
        add(case, target)
        click.echo(f"softcheck: saved {case.id} in {target}", err=True)
    except UsageError as error:
        click.echo(f"softcheck: {case.id} not saved: {error}", err=True)
