"""Sampled rows in every order of their columns and in other rows of the batch: has a variant the same answer for all of them?"""

import itertools
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from oracles.formats import FORMATS, bits_hex
from softcheck.calling.call import Placed, call_on_device, to_bits, to_tensor
from softcheck.cases.exhaustive import domain, telling_rows
from softcheck.run.protocol import CompareOrders, OrdersCompared, Reply, Started
from softcheck.variants.registry import LoadedVariant


def compare_orders(request: CompareOrders, variant: LoadedVariant, device: torch.device) -> Iterator[Reply]:
    """Calls the variant on sampled rows and yields the first row whose answer depends on order or place, if there is one.

    Half of the rows have random bit patterns; the others begin with telling patterns. Answers are compared as bits, but any NaN is
    as good as another.
    """
    fmt = FORMATS[request.dtype]
    whole = domain(request.dtype, request.columns)
    drawn = np.random.default_rng(request.seed)
    rows = drawn.integers(0, 2**fmt.width, (request.rows, request.columns)).astype(fmt.storage)
    telling = np.concatenate([whole.bits(number, 1) for number in telling_rows(whole)])[: request.rows // 2]
    rows[: len(telling)] = telling
    yield Started(variant.name)
    first = _answers(variant, to_tensor(rows, fmt, device), request)
    if isinstance(first, str):
        yield OrdersCompared(len(rows), first)
        return
    lanes = drawn.permutation(len(rows))
    changes = [(np.arange(len(rows)), order) for order in itertools.permutations(range(request.columns))]
    changes += [(lanes, tuple(range(request.columns))), (np.arange(1), tuple(range(request.columns)))]
    for places, order in changes:
        found = _answers(variant, to_tensor(rows[places][:, order], fmt, device), request)
        if isinstance(found, str):
            yield OrdersCompared(len(rows), found)
            return
        expected = first[places] if first.ndim == 1 else first[places][:, order]
        differs = (found != expected).reshape(len(places), -1).any(axis=1)
        if differs.any():
            row = places[int(differs.argmax())]
            words = " ".join(bits_hex(int(bits), fmt) for bits in rows[row])
            how = "in another row of the batch" if order == changes[0][1] else f"with its columns in the order {order}"
            yield OrdersCompared(len(rows), f"the row {words} has another answer {how}")
            return
    yield OrdersCompared(len(rows), None)


def _answers(variant: LoadedVariant, rows: torch.Tensor, request: CompareOrders) -> NDArray[np.int64] | str:
    """Bit patterns of a variant's output, with one pattern for all NaN, or the reason why there are none."""
    fmt = FORMATS[request.dtype]
    returned = call_on_device(variant.function, Placed(rows, rows.view(-1), fmt), variant.operation)
    if returned.output is None:
        return f"a call of {list(rows.shape)} gave no output: {returned.violations[0].message}"
    output = returned.output
    return np.where(torch.isnan(output).cpu().numpy(), -1, to_bits(output, fmt).astype(np.int64))
