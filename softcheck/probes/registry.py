"""Names of the probes, known without importing torch, and their modules."""

import importlib
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from softcheck.errors import UsageError, near_matches

if TYPE_CHECKING:
    from softcheck.probes.base import Probe

PROBES: dict[str, str] = {
    "guard_bands": "reads and writes outside input, operands, output and workspace",
    "page_ends": "reads beyond an input or operand that begins or ends where mapped memory does: they fault",
    "unwritten": "results that change with what uninitialised memory held",
    "neighbours": "rows that change when other rows hold NaN, infinities or huge values",
    "input_untouched": "inputs that are written to, and outputs that are not memory of their own",
    "empties": "no rows, no columns, and empty slices of larger matrices",
    "sizes": "widths 1 to 1100, around powers of two to 2^17, and to 2^20: which of them fail, as a predicate",
    "regimes": "adversarial rows at the sizes that a kernel's source names: widths, tiles, row counts, elements, magnitudes",
    "grid_limits": "0 rows, 65535, 65536 and 2^20 + 1 rows: the limits of launch grids",
    "shapes": "1 to 4097 rows around tiles of rows, and 2^24 elements and rows in rows of 1 to 8",
    "determinism": "repeated calls, calls under load and on another stream, bit for bit",
    "histories": "calls after, beside and in the circumstances of others: modes, threads, streams, graphs, failures",
    "batch_invariance": "a row alone, first, last and in batches of other sizes: the same bits",
    "shifts": "the same constant added to every logit, exactly",
    "permutations": "columns in another order",
    "appended_masks": "-inf columns before, between and behind the others, across block sizes",
    "keys": "attention's keys in another order, and other numbers in those that a query does not see",
    "fusion": "kernels compiled with and without fused multiply and add",
    "meetings": "circumstances that meet: sizes, dimensions, layouts, contents, options, gradients, modes and earlier calls",
    "arithmetic": "compiled kernels that compute otherwise than declared, read off their PTX",
    "volume": "every value in adversarial rows, and fresh random rows of every family: some 10^9 elements on a GPU",
    "addresses": "offsets computed in 32 bits, beyond 2^31 elements",
    "invalid_targets": "targets that are no columns, where a loss declares nothing of them: stores elsewhere",
}
"""Probes in the order in which they run, each with the faults it looks for. ``softcheck.probes.NAME`` holds its
``PROBE``, unless another place is named for it."""

_PLACES: dict[str, str] = {
    **{name: f"equal_calls:{name.upper()}" for name in ("determinism", "unwritten", "input_untouched")},
    **{
        name: f"relations:{name.upper()}"
        for name in ("batch_invariance", "neighbours", "shifts", "permutations", "appended_masks")
    },
    **{name: f"memory.{name}" for name in ("guard_bands", "page_ends", "addresses")},
    **{name: f"sweeps:{name.upper()}" for name in ("sizes", "grid_limits", "shapes")},
    "histories": "histories.search",
}
"""Modules and constants of probes that share a module, or stand in a folder."""


class Slice(NamedTuple):
    """A part of the space of ``meetings``: all axes but these have their plain values."""

    faults: str
    own: tuple[str, ...]
    """Axes without which a function has nothing to try."""
    beside: tuple[str, ...]
    """Axes that these meet."""


SLICES: dict[str, Slice] = {
    "layouts": Slice(
        "strides, offsets and base addresses that are ignored",
        ("dims", "layout", "offset"),
        ("columns", "rows", "contents"),
    ),
    "gradients": Slice(
        "gradients that are not those of the exact backward, where outputs carry one",
        ("gradient", "asked"),
        ("columns", "rows", "contents", "dims", "layout", "offset", "layout of "),
    ),
    "options": Slice(
        "masks, scales, smoothing and other options that calls leave at their defaults",
        (
            *("call", "masked", "biased", "causal", "window", "groups", "sink", "scale", "temperature", "softcap"),
            *("ignore_index", "label_smoothing", "weight", "z_loss", "base", "reduction"),
        ),
        ("columns", "rows", "contents", "before"),
    ),
    "head_shapes": Slice(
        "attention of other numbers of queries than keys, long heads, other head dimensions",
        ("queries", "head_dim", "groups"),
        ("columns", "contents"),
    ),
    "operand_layouts": Slice(
        "one operand of a call, or out=, at other strides than the others, and heads as a projection leaves them",
        ("layout of ", "out"),
        ("layout", "offset"),
    ),
    "shared_masks": Slice(
        "one mask for several rows, heads or batches", ("shared mask",), ("dims", "call", "masked", "biased")
    ),
    "first_rows": Slice(
        "rows beside a first and last row of zeros, sorted numbers or probabilities, by which a wrapper may choose its path",
        ("rows like",),
        ("columns", "rows"),
    ),
    "batches": Slice("means and sums of losses over other numbers of rows", ("rows",), ("contents",)),
    "launch_options": Slice(
        "num_warps from 1 to 16, and splits from 1 to 7, where they can be passed, and each configuration of autotuned kernels",
        ("num_warps", "splits", "configuration"),
        ("columns",),
    ),
    "torch_options": Slice(
        "dim= over other dimensions than the last, dtype= of a wider type, and calls after one with another option",
        ("dims", "dtype", "before"),
        ("columns", "rows"),
    ),
    "torch_transforms": Slice(
        "functions mapped by torch.vmap, and modules that were copied, saved, cast, or set to training",
        ("vmap", "module"),
        ("columns",),
    ),
}
"""Slices by name. A report runs the whole space, and a slice where it is asked for by name."""

Effort = Literal["quick", "normal", "thorough"]
"""How much probes try: the few trials that show most, what a report makes, or calls of ways in the thousands."""
EFFORTS: tuple[Effort, ...] = get_args(Effort)

MEETINGS = "meetings"
"""The probe of circumstances that meet, which can be asked for one call."""

EXCLUSIVE: tuple[str, ...] = ("addresses",)
"""Probes that take so much of a GPU's memory that nothing else may run beside them."""

WIDEST: dict[str, int] = {
    "sizes": 2**20,
    "regimes": 2**18,
    "appended_masks": 65537,
    "volume": 2**17,
    "meetings": 65537,
    **dict.fromkeys(SLICES, 65537),
}
"""Columns of the widest rows that a probe tries on a GPU. A probe that is not named tries at most ``WIDE``."""

WIDE = 2**15

HEAVY: tuple[str, ...] = ("volume",)
"""Probes that keep a GPU busy. Two of them run at once, so that one computes on the host while the other has the GPU."""

LONG: tuple[str, ...] = ("volume", "meetings", "regimes", "histories", "sizes", "grid_limits")
"""Probes that take longest. They begin first, so that none runs alone at the end."""

SPREAD: tuple[str, ...] = ("meetings", "regimes", "histories", "sizes", "shapes")
"""Probes whose trials take long and know nothing of each other: workers that have nothing else to do make some of them."""

TELLING: tuple[str, ...] = ("sizes", "grid_limits", "regimes")
"""Probes whose findings say for which sizes they hold. If several probes show the same, a reader sees these first.
Widths come before row counts, since a row count may fail for the contents of its last row."""


def load(name: str) -> "Probe":
    """Loads a probe by name. Imports torch. Raises UsageError for an unknown name."""
    if check_name(name) in SLICES:
        from softcheck.probes.meetings import Meetings

        return Meetings(SLICES[name])
    module, _, constant = _PLACES.get(name, name).partition(":")
    probe: Probe = getattr(importlib.import_module(f"softcheck.probes.{module}"), constant or "PROBE")
    return probe


def check_name(name: str) -> str:
    """Returns the name itself. Raises UsageError, with near matches, if no probe has it."""
    if name not in (known := described()):
        raise UsageError(f"unknown probe {name!r}; {near_matches(name, list(known))}")
    return name


def described() -> dict[str, str]:
    """Returns the faults that each probe and each slice looks for, by name."""
    slices = {
        name: f"{part.faults}: meetings of {', '.join(map(str.strip, (*part.own, *part.beside)))} alone"
        for name, part in SLICES.items()
    }
    return {**PROBES, **slices}
