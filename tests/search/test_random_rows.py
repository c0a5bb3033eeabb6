"""Rows of every family made on the device, their rating beside the judge's, and the ways of changing them."""

import numpy as np
import pytest
import torch

from oracles.formats import FORMATS
from softcheck.calling.call import TORCH_DTYPES, to_bits
from softcheck.cases.families import FAMILIES
from softcheck.cases.random_rows import FILLERS, ORDINARY, fill, mixed
from softcheck.judge.judge import STANDARD, judge
from softcheck.operations import bounds
from softcheck.operations.registry import OPERATIONS, operation
from softcheck.operations.softmax import SOFTMAX
from softcheck.search.fitness import rate
from softcheck.search.mutation import MUTATIONS, Parents, mutate
from softcheck.search.objective import badness

DTYPES = ("float16", "bfloat16", "float32")
ROWS = 10


def generator(seed=1):
    return torch.Generator().manual_seed(seed)


def test_every_family_but_the_empty_one_is_drawn():
    assert set(FILLERS) == set(FAMILIES) - {"empty"}
    assert set(ORDINARY) <= set(FILLERS)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [1, 2, 65])
def test_rows_have_the_shape_and_repeat_with_the_seed(dtype, columns):
    fmt = FORMATS[dtype]
    for family, filler in FILLERS.items():
        first, again = (fill(filler, ROWS, columns, fmt, generator()) for _ in range(2))
        assert first.shape == (ROWS, columns), family
        assert first.dtype == TORCH_DTYPES[dtype], family
        assert first.is_contiguous(), family
        assert (to_bits(first, fmt) == to_bits(again, fmt)).all(), family


@pytest.mark.parametrize("dtype", DTYPES)
def test_families_are_what_their_names_say(dtype):
    fmt = FORMATS[dtype]

    def rows(family):
        return fill(FILLERS[family], 400, 33, fmt, generator()).double()

    special = rows("special")
    assert (special.isnan().any(dim=1) | (special == torch.inf).any(dim=1)).double().mean() > 0.5
    padding = rows("padding")
    masked = (padding == -torch.inf).double().mean(dim=1)
    assert masked.min() == 0
    assert masked.max() == 1
    assert not padding.isnan().any()
    assert (rows("subnormal-logits").abs() < fmt.least_normal).double().mean() > 0.5
    assert rows("huge").abs().max() == fmt.max
    assert not rows("huge").isinf().any()
    results = torch.softmax(rows("subnormal-results"), dim=1)
    assert ((results > 0) & (results < fmt.least_normal)).double().mean() > 0.2
    ties = rows("ties")
    assert all(len(set(row.tolist())) < 33 for row in ties[:100])
    assert (rows("shifted").abs().amin(dim=1) > 2.0 ** (fmt.precision - 7)).all()


def test_searched_families_have_an_answer():
    for dtype in DTYPES:
        x = mixed(2000, 33, FORMATS[dtype], generator()).double()
        ordinary = x.amax(dim=1).isfinite()
        assert ordinary.double().mean() > 0.98
        assert not x.isnan().any()


def test_few_rows_are_of_some_families():
    assert mixed(3, 5, FORMATS["float32"], generator()).shape == (3, 5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wrong_by", [0.0, 3e-4])
def test_rating_agrees_with_the_judge(dtype, wrong_by):
    fmt = FORMATS[dtype]
    model = bounds.model(STANDARD, fmt)
    compared = halved = 0
    for family, filler in FILLERS.items():
        for columns in (1, 2, 129):
            x = fill(filler, 6, columns, fmt, generator(2))
            y = (torch.softmax(x.float(), dim=-1) * (1 + wrong_by)).to(x.dtype)
            rated = {objective: rate(x, y, fmt, model, objective, SOFTMAX.on_device) for objective in ("bound", "ulp")}
            for row in range(len(x)):
                found = judge(to_bits(x[row : row + 1], fmt), to_bits(y[row : row + 1], fmt), fmt)
                for objective, worst in (("bound", found.max_bound_share), ("ulp", found.max_ulp)):
                    value, column = (float(t[row]) for t in rated[objective])
                    if found.special_rows:
                        assert value == -1, (family, columns, row)
                        continue
                    compared += 1
                    exactly = value == pytest.approx(worst.value, rel=1e-6, abs=1e-6)
                    # Close below a power of two, such as a one that is a little less, the rating takes the larger ULP.
                    is_less = 0.49999 * worst.value <= value <= worst.value
                    assert exactly or is_less, (family, columns, row, value, worst)
                    halved += not exactly
                    assert 0 <= column < columns
    assert compared > 500
    # Few rows of a right function are so, more of one whose ones are too large.
    assert halved < compared / (100 if wrong_by == 0 else 8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [name for name in OPERATIONS if operation(name).scale and operation(name).on_device])
def test_other_operations_are_rated_as_they_are_judged(name, dtype):
    fmt, of = FORMATS[dtype], operation(name)
    model = bounds.model(STANDARD, fmt)
    compared = 0
    for at, (family, filler) in enumerate(FILLERS.items()):
        x = fill(filler, 4, (1, 2, 65 if of.parts is None else 9)[at % 3], fmt, generator(2))
        y = (of.yardstick(x).double() * (1 + 3e-4 * (at % 2))).to(x.dtype)
        rated = {objective: rate(x, y, fmt, model, objective, of.on_device)[0] for objective in ("bound", "ulp")}
        for row in range(len(x)):
            found = judge(to_bits(x[row : row + 1], fmt), to_bits(y[row : row + 1], fmt), fmt, operation=of)
            if found.special_rows == of.part_shape(x.shape[1])[0]:
                assert rated["bound"][row] == rated["ulp"][row] == -1, (family, row)
            elif not found.special_rows and not x[row].isinf().any() and rated["ulp"][row] >= 0:
                for objective, figures in rated.items():
                    wanted = badness(found, objective)
                    assert figures[row] == pytest.approx(max(wanted, 0.0), rel=1e-6, abs=1e-6), (family, row, found)
                compared += 1
    assert compared > 60


def test_what_is_no_number_and_a_leaking_mask_are_rated_infinite():
    fmt = FORMATS["float32"]
    x = torch.tensor([[0.0, 1.0, -torch.inf]] * 3)
    y = torch.softmax(x, dim=1)
    y[1, 0] = torch.nan
    y[2, 2] = 1e-30
    value, column = rate(x, y, fmt, bounds.model(STANDARD, fmt), "bound", SOFTMAX.on_device)
    assert value[0] < 1
    assert value[1:].tolist() == [torch.inf, torch.inf]
    assert column[1:].tolist() == [0, 2]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", list(MUTATIONS))
def test_change_gives_finite_rows_that_differ(dtype, name):
    fmt = FORMATS[dtype]
    for columns in (1, 2, 40):
        random = generator(3)
        rows = mixed(64, columns, fmt, random)
        witness = torch.zeros((64, 1), dtype=torch.int64)
        before = to_bits(rows, fmt)
        changed = mutate(name, Parents(rows, rows.flip(0), witness, fmt, random))
        assert changed.shape == rows.shape
        assert changed.dtype == rows.dtype
        assert (to_bits(rows, fmt) == before).all(), "the parents are left alone"
        assert not changed.isnan().any()
        assert not (changed == torch.inf).any()
        if columns == 40:
            assert (to_bits(changed, fmt) != before).any(axis=1).mean() > 0.3


def test_one_step_is_to_a_neighbour():
    fmt = FORMATS["float16"]
    x = torch.tensor([[1.0], [-0.0], [fmt.max], [-torch.inf]] * 16, dtype=torch.float16)
    step = MUTATIONS["step one"](Parents(x, x, torch.zeros((64, 1), dtype=torch.int64), fmt, generator()))
    moved = np.abs(to_bits(step, fmt).astype(int) - to_bits(x, fmt).astype(int))[:, 0]
    assert set(moved[0::4]) <= {1, 2, 3, 4}
    assert (step[2::4].abs() <= fmt.max).all()
    assert (step[3::4] == -torch.inf).all(), "a masked logit stays masked"
    assert (step[1::4].abs() <= 4 * fmt.least_subnormal).all()
