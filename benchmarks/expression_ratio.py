"""Compares bounds of two versions of softcheck by operation, dtype and arithmetic, on all built-in corpora.

    python benchmarks/expression_ratio.py save before.npz [TITLE ...]
    python benchmarks/expression_ratio.py compare before.npz after.npz [--each]

``save`` is run in each version's own checkout, for all operations or those whose title begins with one of the given. ``compare`` prints for each operation and dtype how large the second version's bounds are beside
the first's: the median, the least and the largest ratio over all bounded elements, sums and gradients, and the case of the last two.
"""
# ruff: noqa: INP001, T201 - a script, not a package; it prints

import argparse
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from oracles.formats import Format, Values, decode, encode
from softcheck.cases.case import Case
from softcheck.cases.corpus import builtin_names, load
from softcheck.operations import ulp
from softcheck.operations.arithmetic import Arithmetic, model
from softcheck.operations.backward import grads_of
from softcheck.operations.elements import specials
from softcheck.operations.operation import Operation
from softcheck.operations.registry import operation

OPERATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "softmax": ("softmax", {}),
    "softmax, scale 0.7": ("softmax", {"scale": 0.7}),
    "softmax, cap 30": ("softmax", {"softcap": 30.0}),
    "softmax, scale, cap, causal": ("softmax", {"scale": 0.3, "softcap": 5.0, "causal": "top-left"}),
    "log_softmax": ("log_softmax", {}),
    "log_softmax, scale 0.7": ("log_softmax", {"scale": 0.7}),
    "log_softmax, cap 30": ("log_softmax", {"softcap": 30.0}),
    "log_softmax, base 2": ("log_softmax", {"base": 2.0}),
    "log_softmax, all": ("log_softmax", {"scale": 0.3, "softcap": 5.0, "base": 2.0, "causal": "bottom-right"}),
    "logsumexp": ("logsumexp", {}),
    "logsumexp, base 2": ("logsumexp", {"base": 2.0}),
    "cross_entropy": ("cross_entropy", {}),
    "cross_entropy, scale, z-loss": ("cross_entropy", {"scale": 0.7, "z_loss": 1e-4}),
    "cross_entropy, cap, smoothing": ("cross_entropy", {"softcap": 30.0, "label_smoothing": 0.1}),
    "cross_entropy, weights, mean": ("cross_entropy", {"weight": 1.0, "label_smoothing": 0.1, "reduction": "mean"}),
    "cross_entropy, smoothing 0.9": ("cross_entropy", {"label_smoothing": 0.9, "ignore_index": -100.0}),
    "cross_entropy, z-loss, sum": ("cross_entropy", {"z_loss": 1e-3, "reduction": "sum"}),
    "cross_entropy, head": ("cross_entropy", {"head": 1.0, "z_loss": 1e-3}),
    "softmax_backward": ("softmax_backward", {}),
    "log_softmax_backward": ("log_softmax_backward", {}),
    "attention": ("attention", {}),
    "attention, one query": ("attention", {"head_dim": 128.0, "queries": 1.0}),
    "attention, causal, shared keys": ("attention", {"head_dim": 16.0, "causal": "bottom-right", "groups": 2.0}),
    "attention, masked, cap": ("attention", {"head_dim": 16.0, "masked": 1.0, "softcap": 5.0}),
    "attention, bias": ("attention", {"head_dim": 16.0, "biased": 1.0}),
    "attention, sink": ("attention", {"head_dim": 16.0, "sink": 3.0, "scale": 0.3}),
    "attention_logsumexp": ("attention_logsumexp", {}),
    "attention_logsumexp, cap, bias, base 2": (
        "attention_logsumexp",
        {"head_dim": 16.0, "softcap": 5.0, "biased": 1.0, "base": 2.0},
    ),
    "attention_logsumexp, sink": ("attention_logsumexp", {"head_dim": 16.0, "sink": 3.0}),
    "attention_logsumexp, far sink": ("attention_logsumexp", {"head_dim": 16.0, "sink": 300.0}),
}
ARITHMETICS = {
    "standard": Arithmetic(),
    "online": Arithmetic(rescales=True),
    "prescaled": Arithmetic(exp="prescaled_ex2_approx"),
    "scaled": Arithmetic(scaled_logits=True),
    "scaled, prescaled": Arithmetic(scaled_logits=True, exp="prescaled_ex2_approx"),
    "serial": Arithmetic(lanes=1),
    "input": Arithmetic(accumulation="input", intermediate="input", exp="libdevice"),
    "flushing": Arithmetic(flush_to_zero=True, division="reciprocal"),
    "tf32": Arithmetic(products="tf32"),
}
MOST_ELEMENTS, MOST_COLUMNS, MOST_CASES = 1 << 10, 1 << 13, 3
"""Elements of a case that are compared, columns of the widest row, and cases of each family and dtype."""
MOST_NUMBERS, MOST_KEYS = 1 << 10, 160
"""Numbers of a bound that are kept, and keys of the longest head: an attention has a number for each query, key and dimension."""
MOST_RATIONALS = 1 << 7
"""The same elements for gradients of float64, which are computed in rational numbers."""


def chosen() -> list[Case]:
    """Some cases of each family and dtype."""
    found = defaultdict(list)
    for case in load(builtin_names()):
        if 0 < case.shape[1] <= MOST_COLUMNS and case.shape[0]:
            found[case.family, case.dtype].append(case)
    return [case for each in found.values() for case in each[:: max(1, len(each) // MOST_CASES)]]


def some(numbers: Any) -> Any:
    """Every so many of a bound's numbers."""
    return numbers.ravel()[:: max(1, numbers.size // MOST_NUMBERS)]


def operand_gradients(place: str, computed: Operation, values: Values, fmt: Format) -> Iterator[tuple[str, Any]]:
    """The limits of gradients of heads whose queries all see a key."""
    assert computed.operand_gradients is not None
    queries, numbers = computed.part_shape(values.shape[1])
    grads = np.random.default_rng(0).normal(size=(len(values), queries * numbers))
    for words in ("standard", "input", "tf32"):
        found = computed.operand_gradients(values, grads, fmt, model(ARITHMETICS[words], fmt))
        for operand, (_, limits) in found.items():
            yield f"{place.format(words)}|gradient by {operand}", some(limits)


def gradients(place: str, computed: Operation, values: Values, fmt: Format) -> Iterator[tuple[str, Any]]:
    """The limits of gradients of ordinary rows, for each arithmetic."""
    left_out = ~np.isfinite(values.max(axis=1))
    if computed.undefined is not None:
        left_out |= computed.undefined(values, fmt)
    values = values[~left_out][: MOST_RATIONALS // values.shape[1] if fmt.width == 64 else None]
    if computed.gradient is None or not values.size:
        return
    answer = computed.prove(values, fmt, "nan")
    grads = grads_of(torch.from_numpy(values)).numpy()
    grads = decode(encode(grads, fmt), fmt)[:, : answer.high.shape[1] if computed.parts is None else None]
    zeros = np.zeros(values.shape)
    for words, arithmetic in ARITHMETICS.items():
        try:
            errors = computed.gradient.errors(zeros, grads, values, answer, fmt, arithmetic)
        except ArithmeticError as found:
            print(f"{place.format(words)}: {found}")
            continue
        yield f"{place.format(words)}|gradient", (errors.limits / errors.per_ulp).ravel()


def bounds(titles: tuple[str, ...]) -> Iterator[tuple[str, Any]]:  # noqa: C901 - one loop in another
    """Each bound's name, ``operation|dtype|arithmetic|case|part``, and its numbers."""
    cases = chosen()
    for title, (name, parameters) in OPERATIONS.items():
        if not title.startswith(titles):
            continue
        found = operation(name, parameters)
        for case in cases:
            fmt = case.format
            values = decode(case.bits(max(1, MOST_ELEMENTS // case.shape[1])), fmt)
            if (MOST_KEYS if found.most_columns else MOST_COLUMNS) < values.shape[1] or (
                fmt.width == 64 and (parameters.get("softcap") or found.most_columns)
            ):
                continue
            with np.errstate(all="ignore"):
                yield from gradients(f"{title}|{fmt.name}|{{}}|{case.id}", found, values, fmt)
                answer = found.answer(values, fmt, "nan")
                logits = values if found.logits is None else found.logits(values, fmt)
                if found.parts is not None:
                    shape = (len(logits), -1)
                    answer = type(answer)(
                        *(np.reshape(part, shape) for part in (answer.high, answer.low, answer.exponent)),
                        np.reshape(np.broadcast_to(answer.relative_error, answer.high.shape), shape),
                        answer.absolute_error,
                        answer.settled,
                    )
                exact = ulp.scaled(answer, fmt, found.least_scale(values, answer.values, fmt))
                kinds = specials(logits, answer.values, answer.high, fmt, per_row=not found.answers_logits)
                bounded = kinds.bounded
                if found.undefined is not None:
                    lost = found.undefined(values, fmt)
                    bounded &= ~np.repeat(lost, len(logits) // len(lost))[:, None]
                if found.operand_gradients is not None and bounded.any(axis=1).all():
                    yield from operand_gradients(f"{title}|{fmt.name}|{{}}|{case.id}", found, values, fmt)
                for words, arithmetic in ARITHMETICS.items():
                    allowed = found.bounds(values, exact, answer.values, model(arithmetic, fmt))
                    place = f"{title}|{fmt.name}|{words}|{case.id}"
                    yield f"{place}|elements", some(allowed.elements[bounded])
                    if allowed.below is not None:
                        yield f"{place}|below", some(allowed.below[bounded])
                    if found.sums_rows:
                        yield f"{place}|sums", allowed.sums[kinds.ordinary & bounded.any(axis=1)]


def compare(first: Path, second: Path, *, each: bool) -> None:
    """Prints the table of ratios."""
    before, after = np.load(first), np.load(second)
    ratios: dict[tuple[str, ...], list[tuple[float, float, str]]] = defaultdict(list)
    medians: dict[tuple[str, ...], list[Any]] = defaultdict(list)
    for name in before.files:
        one, other = before[name], after.get(name, before[name] * np.nan)
        if one.shape != other.shape or np.isnan(other).any() != np.isnan(one).any():
            print(f"{name}: {one.shape} {other.shape}, NaN {np.isnan(one).sum()} {np.isnan(other).sum()}")
            continue
        if not one.size:
            continue
        with np.errstate(all="ignore"):
            ratio = np.where(one == other, 1.0, other / one)
        title, dtype, arithmetic, case, part = name.split("|")
        key = (title, dtype, arithmetic if each else "all", "elements" if part == "below" else part)
        ratios[key].append((float(ratio.min()), float(ratio.max()), f"{arithmetic} {case} {part}"))
        medians[key].append(ratio.ravel())
    print("| operation | dtype | arithmetic | of | median | least | largest | where least | where largest |")
    print("|---|---|---|---|---|---|---|---|---|")
    for key, found in ratios.items():
        least, largest = min(found), max(found, key=lambda each: each[1])
        median = float(np.median(np.concatenate(medians[key])))
        print(f"| {' | '.join(key)} | {median:.4f} | {least[0]:.4f} | {largest[1]:.4f} | {least[2]} | {largest[2]} |")


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    saving = commands.add_parser("save")
    saving.add_argument("file", type=Path)
    saving.add_argument("titles", nargs="*", default=[""], help="beginnings of the operations' titles (default: all)")
    comparing = commands.add_parser("compare")
    comparing.add_argument("files", type=Path, nargs=2)
    comparing.add_argument("--each", action="store_true", help="a line for each arithmetic")
    options = parser.parse_args()
    if options.command == "save":
        np.savez(options.file, **dict(bounds(tuple(options.titles))))
    else:
        compare(*options.files, each=options.each)


if __name__ == "__main__":
    main()
