"""Options that several commands share, with the same words, and the cluster on which a command runs."""

import contextlib
import inspect
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from softcheck.cli.config import NumberRange
from softcheck.errors import UsageError
from softcheck.operations.registry import check_name
from softcheck.report.compare import Comparison, Tolerances
from softcheck.report.formats import Result, formats_of, render
from softcheck.report.output import check_writable, display_of, write
from softcheck.run.process import DeviceChoice
from softcheck.variants.place import refuse_misnamed
from softcheck.variants.registry import BUILTIN_OF, resolve, with_call, with_declared

if TYPE_CHECKING:
    from softcheck.run.pool import Devices


NOTHING_RAN = 3
"""Exit code where nothing was run."""

INTERRUPTED = 130
"""Exit code after Ctrl-C."""

MOST = 2**32 - 1
RANDOM = "random"
EXPECTED = f"a whole number from 0 to {MOST}, or {RANDOM}"

_BACKWARD = "softcheck.backward"

Command = TypeVar("Command", bound=Callable[..., object])

corpora_argument = click.argument("corpora", nargs=-1, metavar="[NAME|FOLDER]...", envvar="SOFTCHECK_CORPUS")

device_option = click.option(
    "--device", type=click.Choice(["auto", "cuda", "interpreter"]), default="auto", show_default=True
)

jobs_option = click.option("--jobs", type=click.IntRange(min=1), help="Worker processes; one per core if left out.")


def flags(helps: Mapping[str, str]) -> Callable[[Command], Command]:
    """Options that are given or not, each with its help."""

    def decorate(function: Command) -> Command:
        for name, words in reversed(list(helps.items())):
            function = click.option(name, is_flag=True, help=words)(function)
        return function

    return decorate


def gathered(into: str, make: Callable[..., object], *options: Callable[..., Any]) -> Callable[[Command], Command]:
    """Options whose values the command gets as one parameter, made of them by ``make``, whose parameters have their names."""
    names = list(inspect.signature(make).parameters)

    def decorate(function: Command) -> Command:
        @wraps(function)
        def gathering(**given: Any) -> object:
            made = make(**{name: given.pop(name) for name in names})
            return function(**{into: made}, **given)

        decorated: Any = gathering
        for option in reversed(options):
            decorated = option(decorated)
        return cast("Command", decorated)

    return decorate


class Output:
    """The place and the format of a command's result; raises UsageError for a place that can't be written."""

    def __init__(self, output: str, output_format: str = "table") -> None:
        """Takes the values of ``--output`` and ``--format``."""
        check_writable(output)
        self.path, self.format = output, output_format

    def write(self, result: Result, baseline: Comparison | None = None, *, summary: bool = True) -> None:
        """Writes a result, and its Markdown, if it has such a format, to the ``summary`` of a step of GitHub Actions."""
        write(render(result, self.format, display_of(self.path), baseline), self.path)
        if summary and "markdown" in formats_of(result):
            from softcheck.report import ci

            ci.add_step_summary(lambda: render(result, "markdown"))


output_option = click.option(
    "--output", default="-", metavar="FILE|-", help="Where the report goes; standard output if left out."
)


def output_options(names: Iterable[str]) -> Callable[[Command], Command]:
    """``--format``, one of these names, and ``--output``, as the parameter ``output``."""
    choice = click.option(
        "--format", "output_format", type=click.Choice(list(names)), default="table", show_default=True
    )
    return gathered("output", Output, choice, output_option)


limit_options = gathered(
    "limits",
    Tolerances,
    click.option(
        "--max-ulp-increase",
        type=NumberRange(min=0),
        default=Tolerances().max_ulp_increase,
        show_default=True,
        help="ULPs by which a maximum may grow.",
    ),
    click.option(
        "--max-slowdown",
        type=NumberRange(min=0),
        default=Tolerances().max_slowdown,
        show_default=True,
        help="Share by which a variant may slow down, its whole interval considered.",
    ),
)
"""``--max-ulp-increase`` and ``--max-slowdown``, as the parameter ``limits``."""


def seed_of(value: Any) -> int | None:
    """Returns the seed that a setting names, a freshly drawn one for ``random``; None if it names none."""
    if value == RANDOM:
        return secrets.randbelow(MOST + 1)
    is_number = (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, str) and value.isascii() and value.isdecimal()
    )
    return int(value) if is_number and 0 <= int(value) <= MOST else None


def seed(value: Any) -> int | str:
    """Converts a setting to a seed, or to ``random``, which the callback draws; raises click's BadParameter for anything else."""
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


def _keep_backward(context: click.Context, _option: click.Parameter, value: bool | None) -> None:  # noqa: FBT001 - click's
    context.meta[_BACKWARD] = value


def _checked(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        check_name(value)
    return value


def variant_options(*, built_in: bool = False, required: bool = True) -> Callable[[Command], Command]:
    """``VARIANT...``, ``--variant``, ``--operation``, ``--call``, ``--declare`` and ``--backward`` as ``names``, by default those ``built_in``; raises UsageError for unknown ones."""

    def names(
        specs: tuple[str, ...], variant: tuple[str, ...], operation: str | None, call: str | None, declare: str | None
    ) -> tuple[str, ...]:
        otherwise = tuple(BUILTIN_OF.get(operation or "softmax", ())) if built_in else ()
        context = click.get_current_context()
        chosen = _chosen(context, specs, variant, operation, call, declare, otherwise)
        if required and not chosen:
            said = "name a variant to judge: a built-in name, FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION"
            raise click.UsageError(said, context)
        return tuple(dict.fromkeys(resolve(spec).name for spec in chosen))

    return gathered(
        "names",
        names,
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


def _chosen(
    context: click.Context,
    specs: Sequence[str],
    variant: Sequence[str],
    operation: str | None,
    call: str | None,
    declare: str | None,
    otherwise: Sequence[str],
) -> Sequence[str]:
    """The chosen variants as they are named; those typed without ``--variant`` win over settings of that name elsewhere."""
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


OPTIONS = ("gpus", "scheduler", "workers")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChoice:
    """The cluster that a command line asks for; none if all fields are None."""

    gpus: str | None = None
    scheduler: str | None = None
    workers: int | None = None

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


cluster_options = gathered(
    "cluster",
    ClusterChoice,
    click.option("--gpus", metavar="all|0,2", help="Spread the work over these GPUs of this machine."),
    click.option(
        "--scheduler", metavar="ADDRESS|FILE", help="Spread the work over the Dask cluster of this scheduler."
    ),
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="Spread the work over N places without a GPU; with --scheduler, wait for so many Dask workers.",
    ),
)
"""``--gpus``, ``--scheduler`` and ``--workers``, as the parameter ``cluster``."""


@contextlib.contextmanager
def opened(choice: ClusterChoice, variants: Sequence[str], jobs: int | None = None) -> Iterator["Devices | None"]:
    """The devices that are asked for, and None for this machine's one alone. Ends what it has started.

    Raises UsageError if Dask is needed and not installed, and what ``softcheck.cluster`` raises.
    """
    if choice.scheduler is None:
        yield _on_this_machine(choice, jobs)
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


def _on_this_machine(choice: ClusterChoice, jobs: int | None) -> "Devices | None":
    from softcheck.cluster import local

    if choice.gpus is not None:
        return local.on_gpus(choice.gpus, jobs)
    return None if choice.workers is None else local.on_cores(choice.workers, jobs)
