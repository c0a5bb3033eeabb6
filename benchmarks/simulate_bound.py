"""Simulates kernels at their very worst and says how much of each proven bound they use.

Most compute softmax; some a cross-entropy with label smoothing, and the backward of softmax with rounded products.

    python benchmarks/simulate_bound.py [--rows N] [--seed S] [--output FILE]

Every operation is rounded as a GPU rounds it; exponentials and divisions that are not correctly rounded are moved by as
many ULPs as their documentation allows, with the signs that hurt most, and a logit of each row is moved to where the
exponent's own roundings hurt most. Prints one line per kernel: the largest share of its own arithmetic's bound that any
element and any row sum used, the row that used it, and the largest shares of the bound that the judge takes for such a
kernel and of the standard contract's. Exits 1 where a kernel breaks its own bound or the judge's.
"""
# ruff: noqa: INP001 - a script, not a package

import argparse
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.formats import BFLOAT16, FLOAT16, FLOAT32, Bits, Format, Values, decode, encode
from softcheck.judge.contracts import contract_of
from softcheck.judge.judge import STANDARD, reference
from softcheck.numbers.model import WARP
from softcheck.operations.arithmetic import Arithmetic, model
from softcheck.operations.backward import SOFTMAX_BACKWARD
from softcheck.operations.block import Block
from softcheck.operations.operation import Operation
from softcheck.operations.registry import operation as operation_of
from softcheck.operations.softmax import SOFTMAX

Singles = NDArray[np.float32]
Steps = NDArray[np.int64]

LOG2E = np.float32(1.4426950408889634)
SCALE = np.float32(0.7)
"""Factor of the logits in kernels that scale them: no power of two, so that products round."""
CANDIDATES = 32
"""Neighbouring logits that are tried for the one that the exponent's roundings hurt most."""
LOOSE = 0.5
WIDE = 1024
VOCABULARY = 129280
"""Columns of the widest rows of losses and backwards: those of a large language model."""

WIDTHS = {
    0.90: (1, 2, 2, 3, 4, 5, 7, 8, 12, 16, 24, 31, 32),
    0.09: (33, 48, 64, 100, 128, 256),
    0.009: (512, 781, 1024, 2048),
    0.001: (4096, 8192, 16384),
}
"""Row widths by the share of all rows that they get together: most rows are short, so that there can be many."""


@dataclass(frozen=True)
class Kernel:
    """One way to compute softmax, and the arithmetic that declares it."""

    name: str
    arithmetic: Arithmetic = STANDARD
    fmt: Format = FLOAT32
    fused: bool = False
    """True if the scaling of logits is fused with the subtraction."""
    exp_ulps: int = 2
    divide_ulps: int = 2
    sum_type: type[np.floating[Any]] = np.float32


KERNELS = (
    Kernel("standard"),
    Kernel("standard, float16 output", fmt=FLOAT16),
    Kernel("standard, bfloat16 output", fmt=BFLOAT16),
    Kernel("float64 sum", Arithmetic(accumulation="float64"), sum_type=np.float64),
    Kernel("online", Arithmetic(rescales=True)),
    Kernel("scaled logits", Arithmetic(scaled_logits=True)),
    Kernel("scaled logits, fused", Arithmetic(scaled_logits=True), fused=True),
    Kernel("scaled logits, prescaled", Arithmetic(scaled_logits=True, exp="prescaled_ex2_approx")),
    Kernel("serial sum", Arithmetic(lanes=1)),
    Kernel("sum in 8 lanes", Arithmetic(lanes=8)),
    Kernel("prescaled", Arithmetic(exp="prescaled_ex2_approx")),
    Kernel("prescaled, fused", Arithmetic(exp="prescaled_ex2_approx"), fused=True),
    Kernel("libdevice exp, div_rn", Arithmetic(exp="libdevice", division="div_rn"), divide_ulps=0),
    Kernel("reciprocal", Arithmetic(division="reciprocal")),
    Kernel("flush to zero", Arithmetic(flush_to_zero=True)),
    Kernel(
        "float16 throughout",
        Arithmetic(exp="libdevice", division="div_rn", accumulation="input", intermediate="input"),
        FLOAT16,
        divide_ulps=0,
        sum_type=np.float16,
    ),
)


@dataclass(frozen=True)
class Faults:
    """Errors in ULPs, beside the rounding: of each exponential and each quotient, and of every rescaling factor."""

    exponentials: Steps
    rescalings: Steps
    quotients: Steps


def faults(rng: np.random.Generator, target: Steps, kernel: Kernel, shape: tuple[int, int]) -> tuple[Faults, Steps]:
    """Faults of a [rows, columns] matrix and the direction, [rows], that they push each row's ``target`` column in.

    Two rows in three have the worst signs for their target: it goes one way, every other exponential, and with it the sum,
    the other way. The rest err all one way or at random.
    """
    rows, columns = shape
    sign = rng.choice(np.array([-1, 1]), (rows, 1))
    pattern = rng.integers(0, 6, (rows, 1))
    others = np.where(np.arange(columns) == target[:, None], sign, -sign)
    worst = np.where(pattern < 4, others, sign)
    random = pattern == 5

    def steps(most: int, chosen: Steps) -> Steps:
        return np.where(random, rng.integers(-most, most + 1, shape), most * chosen)

    quotients = steps(kernel.divide_ulps, np.broadcast_to(sign, shape))
    return Faults(steps(kernel.exp_ulps, worst), -kernel.exp_ulps * sign, quotients), sign[:, 0]


def moved(values: Singles, steps: Steps) -> Singles:
    """Nonnegative float32 values moved by whole ULPs, never below 0."""
    bits = values.view(np.int32).astype(np.int64) + steps
    return np.maximum(bits, 0).astype(np.int32).view(np.float32)


def exponents(x: Singles, top: Singles, kernel: Kernel) -> NDArray[np.float64]:
    """Arguments of the exponential, in units of log 2, as float64.

    Every operation is rounded as the kernel rounds it.
    """
    fused_scale = kernel.arithmetic.scaled_logits and kernel.fused
    if kernel.arithmetic.scaled_logits and not fused_scale:
        x, top = x * SCALE, top * SCALE
    if kernel.arithmetic.exp == "prescaled_ex2_approx":
        if kernel.fused:
            return fused(x, LOG2E, top * LOG2E).astype(np.float64)
        return (x * LOG2E - top * LOG2E).astype(np.float64)
    difference = fused(x, SCALE, top * SCALE) if fused_scale else x - top
    if kernel.arithmetic.intermediate == "input":
        difference = difference.astype(np.float16).astype(np.float32)
    if kernel.arithmetic.exp == "libdevice":
        return difference.astype(np.float64) * np.log2(np.e)
    return (difference * LOG2E).astype(np.float64)


def fused(x: Singles, factor: np.float32, subtracted: Singles) -> Singles:
    """X factor - subtracted, rounded once but for float64's own rounding."""
    return (x.astype(np.float64) * np.float64(factor) - subtracted.astype(np.float64)).astype(np.float32)


def meant(bits: Bits, kernel: Kernel) -> Values:
    """The logits whose softmax a kernel is to compute, exact in float64: a product of two float32 has 48 bits."""
    logits = decode(bits, kernel.fmt)
    return logits * np.float64(SCALE) if kernel.arithmetic.scaled_logits else logits


def exponentials(x: Singles, top: Singles, steps: Steps, kernel: Kernel) -> Singles:
    """exp(x - top) with faults wherever the exponent is not 0 or -inf."""
    exponent = exponents(x, top, kernel)
    exact = np.exp2(exponent).astype(np.float32)
    result = np.where(np.isfinite(exponent) & (exponent != 0), moved(exact, steps), exact)
    if kernel.arithmetic.flush_to_zero:
        result = np.where(result < FLOAT32.least_normal, np.float32(0), result)
    return result.astype(np.float16).astype(np.float32) if kernel.arithmetic.intermediate == "input" else result


def softmax(bits: Bits, fault: Faults, kernel: Kernel) -> Bits:
    """Softmax of [rows, columns] bit patterns as the kernel computes it."""
    x = decode(bits, kernel.fmt).astype(np.float32)
    with np.errstate(all="ignore"):
        top = x.max(axis=1, keepdims=True)
        powers = exponentials(x, top, fault.exponentials, kernel)
        total = online_sum(x, fault, kernel) if kernel.arithmetic.rescales else plain_sum(powers, kernel)
        quotient = divided(powers, total.astype(np.float32)[:, None], fault.quotients, kernel)
    if kernel.arithmetic.flush_to_zero:
        quotient = np.where(quotient < FLOAT32.least_normal, np.float32(0), quotient)
    return encode(quotient.astype(np.float64), kernel.fmt)


def divided(powers: Singles, total: Singles, steps: Steps, kernel: Kernel) -> Singles:
    """Quotients powers / total, [rows, columns], with faults in whatever is not correctly rounded."""
    if kernel.arithmetic.division == "reciprocal":
        return powers * moved(np.float32(1) / total, steps[:, :1])
    return np.where(powers > 0, moved(powers / total, steps), powers / total)


def plain_sum(powers: Singles, kernel: Kernel) -> NDArray[np.floating[Any]]:
    """Sums of rows: by one thread up to 32 columns, else the kernel's lanes in turn and a tree over the lanes."""
    lanes = in_lanes(powers.astype(kernel.sum_type), np.float32(0), kernel)
    total = lanes[0]
    for step in lanes[1:]:
        total = total + step
    return tree(total, lambda left, right: left + right)


def online_sum(x: Singles, fault: Faults, kernel: Kernel) -> Singles:
    """The same order with a running maximum: every addition rescales both of its terms where their maxima differ."""

    def merged(left: tuple[Singles, Singles], right: tuple[Singles, Singles]) -> tuple[Singles, Singles]:
        top = np.maximum(left[0], right[0])
        # Two masked terms have the maximum -inf; they add 0 whatever the shift.
        shift = np.where(np.isneginf(top), np.float32(0), top)
        steps = np.broadcast_to(fault.rescalings, top.shape)
        scaled = [
            total * np.where(own == top, np.float32(1), exponentials(own, shift, steps, kernel))
            for own, total in (left, right)
        ]
        return top, scaled[0] + scaled[1]

    lanes = in_lanes(x, np.float32(-np.inf), kernel)
    running = (lanes[0], np.isfinite(lanes[0]).astype(np.float32))
    for logits in lanes[1:]:
        running = merged(running, (logits, np.isfinite(logits).astype(np.float32)))
    top, total = running
    while top.shape[1] > 1:
        half = top.shape[1] // 2
        top, total = merged((top[:, :half], total[:, :half]), (top[:, half:], total[:, half:]))
    return total[:, 0]


def in_lanes(values: NDArray[Any], filler: np.float32, kernel: Kernel) -> NDArray[Any]:
    """[rows, columns] as [steps, rows, lanes]: what each lane takes in each step."""
    rows, columns = values.shape
    lanes = 1 if columns <= WARP else kernel.arithmetic.lanes
    padded = np.full((rows, -(-columns // lanes) * lanes), filler, dtype=values.dtype)
    padded[:, :columns] = values
    return padded.reshape(rows, -1, lanes).swapaxes(0, 1)


def tree(lanes: NDArray[Any], add: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]) -> NDArray[Any]:
    """[rows, lanes] added up in halves, shape [rows]."""
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = add(lanes[:, :half], lanes[:, half:])
    return lanes[:, 0]


FAMILIES: dict[str, Callable[[np.random.Generator, tuple[int, int]], Values]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "narrow normal": lambda rng, shape: rng.standard_normal(shape) * 0.1,
    "normal x 10": lambda rng, shape: rng.standard_normal(shape) * 10,
    "normal x 40": lambda rng, shape: rng.standard_normal(shape) * 40,
    "normal x 1000": lambda rng, shape: rng.standard_normal(shape) * 1000,
    "shifted normal": lambda rng, shape: rng.standard_normal(shape) * 2 + rng.uniform(-3e4, 3e4, (shape[0], 1)),
    "uniform to -17": lambda rng, shape: rng.uniform(-17, 0, shape),
    "uniform to -104": lambda rng, shape: rng.uniform(-104, 0, shape),
    "uniform to -0.001": lambda rng, shape: rng.uniform(-1e-3, 0, shape),
    "uniform 2^15": lambda rng, shape: rng.uniform(-(2.0**15), 2.0**15, shape),
    "equal": lambda rng, shape: np.broadcast_to(rng.uniform(-100, 100, (shape[0], 1)), shape).copy(),
    "ascending": lambda rng, shape: np.sort(rng.uniform(0, 1, shape), axis=1) * rng.uniform(0.1, 110, (shape[0], 1)),
    "descending": lambda rng, shape: -np.sort(rng.uniform(0, 1, shape), axis=1) * rng.uniform(0.1, 110, (shape[0], 1)),
    "ramp": lambda rng, shape: np.arange(shape[1]) / shape[1] * 10 ** rng.uniform(-6, 1, (shape[0], 1)),
    "one-hot": lambda rng, shape: np.where(peak(rng, shape), 0.0, -rng.uniform(0, 90, (shape[0], 1))),
    "two values": lambda rng, shape: rng.choice(np.array([0.0, 1.0]), shape) * rng.uniform(-20, 0, (shape[0], 1)),
    "one large": lambda rng, shape: rng.standard_normal(shape) * 0.01 + 20 * peak(rng, shape),
    "log uniform": lambda rng, shape: np.log(rng.uniform(1e-6, 1, shape)),
    "power law": lambda rng, shape: -rng.uniform(0.5, 3, (shape[0], 1)) * np.log1p(np.arange(shape[1])),
    "masked": lambda rng, shape: np.where(rng.uniform(size=shape) < 0.3, -np.inf, rng.standard_normal(shape) * 3),
    "near subnormal": lambda rng, shape: np.where(peak(rng, shape), 0.0, rng.uniform(-104, -84, shape)),
}


def peak(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """One column of each row."""
    return np.arange(shape[1]) == rng.integers(0, shape[1], (shape[0], 1))


Operands = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Form:
    """One way to compute another operation, and rows that are hard for it."""

    name: str
    operation: Operation
    fmt: Format = FLOAT32
    arithmetic: Arithmetic = STANDARD
    families: Mapping[str, Callable[[np.random.Generator, tuple[int, int]], tuple[Values, Operands]]]
    """Logits and operands of a [rows, columns] matrix."""
    compute: "Callable[[Form, Singles, Mapping[str, Any], np.random.Generator], Values]"
    """Computes the answers from float32 logits and the operands, before they are rounded to the format."""
    sum_type: type[np.floating[Any]] = np.float32

    def batch(self, family: str, shape: tuple[int, int], seed: tuple[int, ...]) -> Block:
        """A batch of rows of one family, and what the judge makes of it."""
        rng = np.random.default_rng(seed)
        values, operands = self.families[family](rng, shape)
        bits = encode(values, self.fmt)
        logits, operation = decode(bits, self.fmt), self.operation.naming(operands)
        with np.errstate(all="ignore"):
            found = encode(self.compute(self, logits.astype(np.float32), operands, rng), self.fmt)
        constants, answer = model(self.arithmetic, self.fmt), operation.answer(logits, self.fmt, "nan")
        return Block(0, bits, found, self.fmt, logits, logits, answer, constants, operation)

    def total(self, terms: Singles) -> Singles:
        """Sums of rows, [rows, 1]."""
        kernel = Kernel(self.name, self.arithmetic, self.fmt, sum_type=self.sum_type)
        return plain_sum(terms, kernel).astype(np.float32)[:, None]


def smoothed_loss(form: Form, x: Singles, operands: Operands, rng: np.random.Generator) -> Values:
    """The loss as torch computes it, by the sum over the columns of the log-softmax."""
    top, steps = x.max(axis=1, keepdims=True), rng.choice([-2, 2], (len(x), 1))
    powers = exponentials(x, top, np.broadcast_to(steps, x.shape), KERNELS[0])
    logarithms = (x - top) - np.log(form.total(powers))
    smoothing = np.float32(form.operation.parameters["label_smoothing"])
    picked = np.take_along_axis(logarithms, operands["target"][:, None], axis=1)
    mean = form.total(logarithms) * (smoothing / np.float32(x.shape[1]))
    return np.asarray(-(np.float32(1) - smoothing) * picked - mean, dtype=np.float64)


def backward_of_rounded_products(form: Form, _x: Singles, operands: Operands, _rng: np.random.Generator) -> Values:
    """The backward of softmax with the products of output and gradient in the format, as torch's CUDA kernel has them."""
    y, grad = (operands[name].astype(np.float32) for name in ("y", "grad"))
    products = decode(encode((y * grad).astype(np.float64), form.fmt), form.fmt).astype(np.float32)
    return np.asarray(products - y * form.total(products), dtype=np.float64)


def one_above_equal(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Values, Operands]:
    """One logit of 50 to 100 over equal ones, which is the target in every second row: the one whose sum in a lane drifts most."""
    above, candidates = peak(rng, shape), rng.uniform(50, 100, (shape[0], CANDIDATES)).astype(np.float32)
    additions = shape[1] if shape[1] <= WARP else -(-shape[1] // WARP)
    sums = np.zeros_like(candidates)
    for _ in range(additions):
        sums += candidates
    drift = np.abs(sums / (candidates.astype(np.float64) * additions) - 1)
    chosen = np.take_along_axis(candidates, drift.argmax(axis=1, keepdims=True), axis=1)
    values = np.where(above, chosen, 0.0)
    return values, {"target": np.where(np.arange(shape[0]) % 2, above.argmax(axis=1), 0)}


def one_below_equal(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Values, Operands]:
    """The first logit as far below equal ones as makes all additions of their terms round one way."""
    least = 2.0 ** np.ceil(np.log2(np.log(shape[1]) + 1e-9))
    values = np.zeros(shape)
    values[:, 0] = -least * 2.0 ** rng.integers(20, 26, shape[0]) * rng.uniform(0.5, 1, shape[0])
    return values, {"target": np.full(shape[0], shape[1] - 1)}


def spread_out(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Values, Operands]:
    """Normal logits at any offset, with random targets."""
    values = rng.standard_normal(shape) * 3 + rng.uniform(-100, 100, (shape[0], 1))
    return values, {"target": rng.integers(0, shape[1], shape[0])}


def around_subnormals(fmt: Format) -> Callable[[np.random.Generator, tuple[int, int]], tuple[Values, Operands]]:
    """Outputs of a few least subnormals beside one near 1, and gradients of any size, or that put products just beyond half of one."""

    def operands(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Values, Operands]:
        large = peak(rng, shape)
        few = fmt.least_subnormal * rng.choice([1.0, 1.0, 3.0, 5.0, 16.0], (shape[0], 1))
        y = np.where(large, 1.0, few)
        grad = (0.5 + fmt.unit_roundoff * rng.choice([-1, 1], (shape[0], 1))) * 2.0 ** rng.integers(
            -2, 2, (shape[0], 1)
        )
        grad = np.where(large & (rng.uniform(size=(shape[0], 1)) < 0.5), 0.0, np.broadcast_to(grad, shape))
        grad = np.where(rng.uniform(size=(shape[0], 1)) < 0.5, grad, rng.uniform(-2, 2, shape))
        return np.zeros(shape), {name: decode(encode(part, fmt), fmt) for name, part in (("y", y), ("grad", grad))}

    return operands


def ordinary_outputs(fmt: Format) -> Callable[[np.random.Generator, tuple[int, int]], tuple[Values, Operands]]:
    """Outputs for normal logits, and normal gradients."""

    def operands(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Values, Operands]:
        powers = np.exp(rng.standard_normal(shape) * rng.choice([0.1, 1.0, 4.0], (shape[0], 1)))
        y, grad = powers / powers.sum(axis=1, keepdims=True), rng.standard_normal(shape)
        return np.zeros(shape), {name: decode(encode(part, fmt), fmt) for name, part in (("y", y), ("grad", grad))}

    return operands


LOSS_FAMILIES = {"one above equal": one_above_equal, "one below equal": one_below_equal, "spread out": spread_out}

FORMS = (
    *(
        Form(
            name=f"cross-entropy, smoothing {smoothing:g}",
            operation=operation_of("cross_entropy", {"label_smoothing": smoothing}),
            families=LOSS_FAMILIES,
            compute=smoothed_loss,
        )
        for smoothing in (0.1, 0.9)
    ),
    *(
        Form(
            name=f"softmax backward, {fmt.name} products",
            operation=SOFTMAX_BACKWARD,
            fmt=fmt,
            families={"around subnormals": around_subnormals(fmt), "ordinary": ordinary_outputs(fmt)},
            compute=backward_of_rounded_products,
        )
        for fmt in (FLOAT16, BFLOAT16)
    ),
)


@dataclass(frozen=True)
class Row:
    """The share of a bound, and the row that used it."""

    share: float = 0.0
    family: str = ""
    columns: int = 0
    seed: tuple[int, ...] = ()
    """Seed of the batch's generator, then the row's index in the batch."""


@dataclass
class Worst:
    """Largest shares of one kernel's bounds."""

    kernel: Kernel | Form
    rows: int = 0
    element: Row = field(default_factory=Row)
    wide_element: Row = field(default_factory=Row)
    total: Row = field(default_factory=Row)
    judged: Row = field(default_factory=Row)
    """Of the bound that the judge takes for a kernel that declares this arithmetic, or shows it where that is enough."""
    standard: Row = field(default_factory=Row)
    """Of the standard contract's bound: beyond 1 a kernel is found wrong that declares nothing and shows nothing."""

    def add(self, block: Block, family: str, seed: tuple[int, ...]) -> None:
        """Takes a judged batch into account."""
        rows, columns = block.logits.shape
        self.rows += rows
        models = [model(a, block.fmt) for a in (contract_of(self.kernel.arithmetic), STANDARD)]
        with np.errstate(all="ignore"):
            elements = _largest_shares(block)
            judged, standard = (_largest_shares(replace(block, model=model)) for model in models)
            totals = np.nan_to_num(np.abs(block.sum_deviations) / block.bounds.sums)
        self.element = _larger(self.element, elements, family, columns, seed)
        self.judged = _larger(self.judged, judged, family, columns, seed)
        self.standard = _larger(self.standard, standard, family, columns, seed)
        self.total = _larger(self.total, totals, family, columns, seed)
        if columns >= WIDE:
            self.wide_element = _larger(self.wide_element, elements, family, columns, seed)

    @property
    def broken(self) -> bool:
        """True if a bound was exceeded."""
        return max(self.element.share, self.total.share, self.judged.share) > 1

    @property
    def line(self) -> str:
        """One line of the table."""
        row = self.element
        verdict = "BROKEN" if self.broken else "loose" if row.share < LOOSE else ""
        seed = "/".join(map(str, row.seed))
        where = f"{row.family}, {row.columns} columns, {seed}"
        kept = (row, self.wide_element, self.total, self.judged, self.standard)
        # Losses and backwards have no rule for sums.
        shares = " | ".join(
            "-" if not r.share else f"{r.share:.4f}" if r.share < _MANY else f"{r.share:.0f}" for r in kept
        )
        return f"| {self.kernel.name} | {self.rows} | {shares} | {where} | {verdict} |"


_MANY = 100.0


def _largest_shares(block: Block) -> Values:
    """The largest share of each row's bounds, shape [rows]; 0 where the answer follows a convention."""
    shares = np.where(block.specials.comparable, block.shares, np.inf).max(axis=1)
    shares[~block.specials.ordinary] = 0.0
    return shares


def _larger(worst: Row, shares: Values, family: str, columns: int, seed: tuple[int, ...]) -> Row:
    at = int(shares.argmax())
    share = float(shares[at])
    return worst if share <= worst.share else Row(share, family, columns, (*seed, at))


def batch(kernel: Kernel, family: str, shape: tuple[int, int], seed: tuple[int, ...]) -> Block:
    """A batch of rows of one family, computed by a kernel at its worst, and what the judge makes of it."""
    rng = np.random.default_rng(seed)
    values = FAMILIES[family](rng, shape)
    values[np.isneginf(values).all(axis=1), 0] = 0.0
    bits = encode(np.maximum(values, -kernel.fmt.max, where=np.isfinite(values), out=values), kernel.fmt)
    target = rng.integers(0, shape[1], shape[0])
    fault, direction = faults(rng, target, kernel, shape)
    bits = aggravated(rng, bits, target, direction, kernel)
    logits = meant(bits, kernel)
    constants = model(kernel.arithmetic, kernel.fmt)
    answer = reference(logits, kernel.fmt)
    return Block(0, bits, softmax(bits, fault, kernel), kernel.fmt, logits, logits, answer, constants, SOFTMAX)


def aggravated(rng: np.random.Generator, bits: Bits, target: Steps, direction: Steps, kernel: Kernel) -> Bits:
    """The logits with each row's target moved to the neighbour whose exponent errs most in the row's direction."""
    each = np.arange(len(bits))
    top = decode(bits, kernel.fmt).max(axis=1, keepdims=True).astype(np.float32)
    own = bits[each, target].astype(np.int64)[:, None]
    reach = 4 if kernel.fmt.width == 16 else 4096
    near = own + rng.integers(-reach, reach + 1, (len(bits), CANDIDATES))
    near[:, 0] = own[:, 0]
    near = np.clip(near, 0, 2**kernel.fmt.width - 1).astype(bits.dtype)
    logits, target_top = decode(near, kernel.fmt), meant(bits, kernel).max(axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        exact = (meant(near, kernel) - target_top) * np.log2(np.e)
        error = (exponents(logits.astype(np.float32), top, kernel) - exact) * direction[:, None]
    error[~np.isfinite(error) | ~(logits < top)] = -np.inf
    chosen = near[each, error.argmax(axis=1)]
    result = bits.copy()
    movable = np.isfinite(error).any(axis=1) & (decode(own.astype(bits.dtype), kernel.fmt)[:, 0] < top[:, 0])
    result[each[movable], target[movable]] = chosen[movable]
    return result


def batches(
    rows: int, families: Collection[str] = FAMILIES, widest: tuple[int, ...] = ()
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Families and shapes of batches of at least ``rows`` rows in all, each family at every width, and few rows of the ``widest``."""
    for share, widths in WIDTHS.items():
        wanted = -(-int(rows * share) // (len(widths) * len(families)))
        for columns in widths:
            for family in families:
                yield family, (max(1, wanted), columns)
    for columns in widest:
        for family in families:
            yield family, (4, columns)


def simulate(kernel: Kernel | Form, rows: int, seed: int) -> Worst:
    """Judges at least ``rows`` rows of a kernel at its worst."""
    worst = Worst(kernel)
    most = 1 << 18
    if isinstance(kernel, Kernel):
        shapes, made = batches(rows), partial(batch, kernel)
    else:
        shapes, made = batches(rows, kernel.families, (VOCABULARY,)), kernel.batch
    for number, (family, (wanted, columns)) in enumerate(shapes):
        step = max(1, most // columns)
        for part, first in enumerate(range(0, wanted, step)):
            key = (seed, number, part)
            worst.add(made(family, (min(step, wanted - first), columns), key), family, key)
    return worst


def main(arguments: list[str] | None = None) -> int:
    """Prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows per kernel (default: 1000000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers (default: 0)")
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    options = parser.parse_args(arguments)
    lines = [
        (
            f"| kernel | rows | worst share | at {WIDE}+ columns | of the sum's bound | of the judge's bound | of the standard bound "
            "| worst row: family, width, seed | |"
        ),
        "|---|---|---|---|---|---|---|---|---|",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    broken = False
    for kernel in (*KERNELS, *FORMS):
        worst = simulate(kernel, options.rows, options.seed)
        broken = broken or worst.broken
        lines.append(worst.line)
        sys.stdout.write(worst.line + "\n")
        sys.stdout.flush()
    if options.output is not None:
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
