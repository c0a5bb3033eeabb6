"""Options that several commands share, with the same words."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import click

from softcheck.variants.registry import resolve, with_call, with_declared

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


def variant_options(function: Command) -> Command:
    """``VARIANT...``, ``--variant``, ``--call``, ``--declare`` and ``--backward``, for ``variants_of``."""
    argument = click.argument("specs", nargs=-1, metavar="[NAME|FILE:FUNCTION]...")
    option = click.option(
        "--variant",
        multiple=True,
        metavar="NAME|FILE:FUNCTION",
        help="The same as an option, as often as there are variants.",
    )
    call = click.option(
        "--call", metavar="CALL", help="How the functions are called, as in 'f(x, dim=-1)', 'f(out, x)' or 'f(x4)[0]'."
    )
    declare = click.option(
        "--declare",
        metavar="PROMISES",
        help="What the functions promise, in place of what they declare: 'layouts=contiguous,empty=False,max_elements=2**31'.",
    )
    backward = click.option(
        "--backward/--no-backward",
        default=None,
        expose_value=False,
        callback=_keep_backward,
        help="Promise gradients, or leave them alone; left out, they are judged where the output requires one.",
    )
    return argument(option(call(declare(backward(function)))))


_BACKWARD = "softcheck.backward"


def _keep_backward(context: click.Context, _option: click.Parameter, value: bool | None) -> None:  # noqa: FBT001 - click's
    context.meta[_BACKWARD] = value


def variants_of(
    context: click.Context,
    specs: Sequence[str],
    variant: Sequence[str],
    call: str | None,
    declare: str | None,
    *,
    otherwise: Sequence[str] = (),
) -> list[str]:
    """The names of the chosen variants, each with its call; ``otherwise`` if none was chosen.

    What stands on the command line without ``--variant`` counts for the setting ``variant``: variants from the environment
    or pyproject.toml are left out beside it. Raises UsageError for an unknown variant or call, and click's UsageError if
    nothing was chosen.
    """
    if specs:
        typed = context.get_parameter_source("variant") is click.core.ParameterSource.COMMANDLINE
        variant = (*specs, *(variant if typed else ()))
    if (backward := context.meta.get(_BACKWARD)) is not None:
        declare = f"{declare},backward={backward}" if declare else f"backward={backward}"
    if call is not None:
        variant = tuple(with_call(spec, call) for spec in variant)
    if declare is not None:
        variant = tuple(with_declared(spec, declare) for spec in (variant or otherwise))
    if specs or call is not None or declare is not None:
        # A journal keeps them with the other options.
        context.params["variant"] = variant
        context.set_parameter_source("variant", click.core.ParameterSource.COMMANDLINE)
    if not (variant or otherwise):
        raise click.UsageError(
            "name a variant to judge: a built-in name, FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION", context
        )
    return list(dict.fromkeys(resolve(spec).name for spec in (variant or otherwise)))
