"""Options that several commands share, with the same words, and the cluster on which a command runs."""

import contextlib
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import click

from softcheck.cases.dtypes import known_dtype
from softcheck.cli.command import Argument, Gathered, Word
from softcheck.cli.config import LONGEST, NumberRange
from softcheck.errors import UsageError, near_matches
from softcheck.operations.registry import DEFAULT, check_name
from softcheck.report.compare import Comparison, Tolerances
from softcheck.report.formats import Result, formats_of, render
from softcheck.report.output import check_writable, display_of, write
from softcheck.run.process import DeviceChoice
from softcheck.variants.registry import BUILTIN_OF, resolve, with_call, with_declared

if TYPE_CHECKING:
    from softcheck.run.pool import Devices


NOTHING_RAN = 3
"""Exit code where nothing was run."""

INTERRUPTED = 130
"""Exit code after Ctrl-C."""

MOST = 2**32 - 1
RANDOM = "random"

Corpora = Annotated[tuple[str, ...], Argument("[NAME|FOLDER]...", "SOFTCHECK_CORPUS")]
Dtype = Annotated[str, Word(known_dtype)]
Dtypes = Annotated[tuple[str, ...], Word(known_dtype)]
Jobs = Annotated[int | None, click.IntRange(min=1)]
TimeLimit = Annotated[float, NumberRange(min=1, max=LONGEST)]
"""Options of several commands."""


class Output:
    """The place and the format of a command's result; raises UsageError for a place that can't be written."""

    def __init__(self, format_: str = "table", output: str = "-") -> None:
        """Takes the values of ``--format`` and ``--output``."""
        check_writable(output)
        self.path, self.format = output, format_

    def write(self, result: Result, baseline: Comparison | None = None, *, summary: bool = True) -> None:
        """Writes a result, and its Markdown, if it has such a format, to the ``summary`` of a step of GitHub Actions."""
        write(render(result, self.format, display_of(self.path), baseline), self.path)
        if summary and "markdown" in formats_of(result):
            from softcheck.report import ci

            ci.add_step_summary(lambda: render(result, "markdown"))


Limits = Annotated[Tolerances, Gathered(Tolerances)]


class _Format(click.Choice):  # type: ignore[type-arg]  # generic since click 8.2
    """One of some formats, with near matches of a word that is none."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Returns the message about a word that is none."""
        return f"{super().get_invalid_choice_message(value, ctx)} {near_matches(str(value), list(self.choices))}"


def output_as(formats: Iterable[str]) -> Gathered:
    """``--format``, one of these names, and ``--output``."""
    return Gathered(Output, {"format_": _Format(list(formats))})


def seed(value: Any) -> int:
    """A seed, for ``random`` a fresh one that is told on standard error; raises click's BadParameter for anything else."""
    text = str(value)
    if text == RANDOM:
        number = secrets.randbelow(MOST + 1)
        click.echo(f"softcheck: --seed {RANDOM} drew {number}; --seed {number} repeats this run", err=True)
        return number
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MOST)) and int(text) <= MOST):
        raise click.BadParameter(f"{value!r} is no seed; expected a whole number from 0 to {MOST}, or {RANDOM}")
    return int(text)


Seed = Annotated[int, Word(seed, "seed")]


def _named(*, built_in: bool = False, required: bool = True) -> Gathered:
    """The variants that are named, by default those ``built_in``, with what options say of them; raises UsageError for unknown ones."""

    def names(
        specs: Annotated[tuple[str, ...], Argument("[NAME|FILE:FUNCTION]...")],
        variant: tuple[str, ...] = (),
        operation: Annotated[str | None, Word(check_name)] = None,
        call: str | None = None,
        declare: str | None = None,
        backward: bool | None = None,  # noqa: FBT001 - an option
    ) -> tuple[str, ...]:
        context = click.get_current_context()
        if specs:
            # Those typed without --variant win over settings of that name elsewhere.
            typed = context.get_parameter_source("variant") is click.core.ParameterSource.COMMANDLINE
            variant = (*specs, *(variant if typed else ()))
        if call is not None:
            variant = tuple(with_call(resolve(spec).name, call) for spec in variant)
        # Built-in variants say themselves what they compute, but a parameter is one of an operation.
        promises = [f"operation={operation}"] if operation is not None and (variant or declare) else []
        promises += [declare] if declare else []
        promises += [] if backward is None else [f"backward={backward}"]
        if built_in and not variant:
            variant = tuple(BUILTIN_OF.get(operation or DEFAULT, ()))
        if promises:
            variant = tuple(with_declared(spec, ",".join(promises)) for spec in variant)
        if specs or call is not None or promises or operation is not None:
            # A journal keeps them with the other options.
            context.params["variant"] = variant
            context.set_parameter_source("variant", click.core.ParameterSource.COMMANDLINE)
        if required and not variant:
            said = "name a variant to judge: a built-in name, FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION"
            raise click.UsageError(said, context)
        return tuple(dict.fromkeys(resolve(spec).name for spec in variant))

    return Gathered(names)


Names = Annotated[tuple[str, ...], _named()]
OptionalNames = Annotated[tuple[str, ...], _named(required=False)]
BuiltinNames = Annotated[tuple[str, ...], _named(built_in=True)]


OPTIONS = ("gpus", "scheduler", "workers")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChoice:
    """The cluster that a command line asks for; none if all fields are None."""

    gpus: str | None = None
    scheduler: str | None = None
    workers: Annotated[int | None, click.IntRange(min=1)] = None

    @property
    def is_wanted(self) -> bool:
        """True if any cluster is asked for."""
        return any(getattr(self, name) is not None for name in OPTIONS)

    def device(self, device: DeviceChoice) -> DeviceChoice:
        """The device of each worker. Raises UsageError if the options contradict each other."""
        if self.gpus is not None and (self.scheduler is not None or self.workers is not None):
            raise UsageError("--gpus is for this machine's GPUs; leave out --scheduler and --workers, or --gpus")
        on_cores = self.workers is not None and self.scheduler is None
        wrong = {"interpreter": self.gpus is not None, "cuda": on_cores}.get(device)
        if wrong:
            raise UsageError(
                f"--device {device} contradicts {'--workers, which uses no GPU' if on_cores else '--gpus'}; leave one of them out"
            )
        return "interpreter" if on_cores else "cuda" if self.gpus is not None else device


Cluster = Annotated[ClusterChoice, Gathered(ClusterChoice)]


@contextlib.contextmanager
def opened(choice: ClusterChoice, variants: Sequence[str], jobs: int | None = None) -> Iterator["Devices | None"]:
    """The devices that are asked for, and None for this machine's one alone. Ends what it has started.

    Raises UsageError if Dask is needed and not installed, and what ``softcheck.cluster`` raises.
    """
    if choice.scheduler is None:
        from softcheck.cluster import local

        if choice.gpus is not None:
            yield local.on_gpus(choice.gpus, jobs)
        else:
            yield None if choice.workers is None else local.on_cores(choice.workers, jobs)
        return
    try:
        from softcheck.cluster.dask import joined
    except ImportError as error:
        raise UsageError(
            f"--scheduler needs Dask ({error}); install it with: pip install 'softcheck[cluster]'"
        ) from None
    with joined(choice.scheduler, variants, choice.workers) as cluster:
        if cluster.dashboard is not None:
            click.echo(f"softcheck: dashboard: {cluster.dashboard}", err=True)
        yield cluster
