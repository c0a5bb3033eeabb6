"""The option ``--seed`` of every command that draws: a number, or ``random``, which draws one and says it."""

import secrets
from typing import Any

import click

MOST = 2**32 - 1
RANDOM = "random"
EXPECTED = f"a whole number from 0 to {MOST}, or {RANDOM}"


def seed_of(value: Any) -> int | None:
    """Returns the seed that a setting names, a freshly drawn one for ``random``; None if it names none."""
    if value == RANDOM:
        return secrets.randbelow(MOST + 1)
    is_number = (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, str) and value.isascii() and value.isdecimal()
    )
    return int(value) if is_number and 0 <= int(value) <= MOST else None


def seed(value: Any) -> int | str:
    """Converts a setting to a seed; ``random`` stays a word until the option's callback draws.

    Raises click's BadParameter for anything else.
    """
    if seed_of(value) is None:
        raise click.BadParameter(f"{value!r} is no seed; expected {EXPECTED}")
    return RANDOM if value == RANDOM else int(value)


def _drawn(_context: click.Context, _option: click.Parameter, value: int | str) -> int:
    drawn = seed_of(value)
    assert drawn is not None
    if value == RANDOM:
        click.echo(f"softcheck: --seed {RANDOM} drew {drawn}; --seed {drawn} repeats this run", err=True)
    return drawn


seed_option = click.option(
    "--seed",
    type=seed,
    callback=_drawn,
    default=0,
    show_default=True,
    metavar=f"N|{RANDOM}",
    help=f"Number that all drawn inputs come from; {RANDOM} draws one and prints it. Probes add a digest of the variant's source.",
)
