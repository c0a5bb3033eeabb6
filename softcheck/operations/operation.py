"""The fields that every operation fills: its exact answer, the errors allowed, the rules, and what it is timed beside."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from oracles.formats import Format, Values
from oracles.reference import FullyMasked, Reference
from softcheck.operations.bounds import Bounds, Model
from softcheck.operations.rules import Rule
from softcheck.operations.ulp import Scaled

if TYPE_CHECKING:
    import torch


class Limits(NamedTuple):
    """Exact values and limits of a matrix on a device; all float64, [rows, columns]."""

    exact: "torch.Tensor"
    per_ulp: "torch.Tensor"
    """1 / ulp(r), a power of two."""
    limits: "torch.Tensor | None"
    """The largest error allowed, in ULPs, 0 where the answer is settled; None if no arithmetic was given."""
    sums: "torch.Tensor | None"
    """Largest |sum - 1| of each row, float64 [rows]; None if no arithmetic was given."""


class OnDevice(Protocol):
    """Exact values and limits of a [rows, columns] tensor from torch's float64, for many rows at once.

    Rows with special values have no meaning. Without ``strict`` no error seems larger than it is, so that rows can be
    ranked; with it no error seems smaller, so that what keeps its limit can be passed.
    """

    def __call__(self, x: "torch.Tensor", fmt: Format, model: Model | None, *, strict: bool = False) -> Limits:
        """Returns exact values alone if no arithmetic is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A function of each row of a matrix, and all that judges an output of it."""

    name: str
    answer: Callable[[Values, Format, FullyMasked], Reference]
    """Returns the everyday oracle's answer for outputs of a format: float64 for 16 and 32 bits, double-double for float64.

    Takes the inputs' values, float64 [rows, columns], and the convention for a row of -inf.
    """
    prove: Callable[[Values, FullyMasked], Reference]
    """Returns the Arb oracle's answer: proven enclosures, for rows that the everyday oracle's own error could decide."""
    bounds: Callable[[Values, Scaled, Values, Model], Bounds]
    """Returns the errors that an arithmetic allows; takes the inputs' values, the exact answer in units of its ULP, the
    exact answer rounded to float64, and the arithmetic's constants."""
    on_device: OnDevice
    """Returns exact values and limits where a tensor lies: the one door to the device."""
    accelerator: str
    """A faster judge of whole outputs on a GPU, as ``module:function``; ``judge_on_gpu`` calls it."""
    rules: tuple[Rule, ...]
    """The rules that an output must keep."""
    yardstick: "Callable[[torch.Tensor], torch.Tensor]"
    """Computes the operation as torch does; the speed of variants is given beside it."""
    elements_moved: Callable[[int, int], int]
    """Returns the elements that must be read and written at least for so many rows and columns."""

    def judge_on_gpu(self, x: "torch.Tensor", y: "torch.Tensor", fmt: Format, **options: Any) -> Any:
        """Measures an output where it lies, by the operation's accelerator, whose options and errors these are.

        The accelerator is imported now: it imports Triton, whose own functions are interpreted or not by the value of
        TRITON_INTERPRET at that moment.
        """
        module, function = self.accelerator.split(":")
        return getattr(import_module(module), function)(x, y, fmt, **options)
