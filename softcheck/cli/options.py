"""Options that several commands share, with the same words."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import click

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


def variants_argument(*, required: bool) -> Callable[[Command], Command]:
    """``VARIANT...`` as the parameter ``variants``; the setting ``variant`` stands for it where it is left out."""
    metavar = "VARIANT..." if required else "[VARIANT...]"
    return click.argument("variants", nargs=-1, required=required, metavar=metavar, envvar="SOFTCHECK_VARIANT")
