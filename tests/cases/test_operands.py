"""Operands that cases name: their lines, digests and parts, and what does not fit."""

import json

import msgspec
import numpy as np
import pytest
from case_helpers import case_of

from oracles.formats import FLOAT16, decode
from softcheck.cases.case import check_contents
from softcheck.cases.corpus import decode_case, encode_case
from softcheck.cases.operands import Operands
from softcheck.cases.recipe import Constant, Mask, Normal, Recipe
from softcheck.errors import UsageError

LOGITS = [[1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0], [0.0, 0.0, 0.0, 0.0]]
EVERYTHING = Operands(
    target=(3, 0, 1),
    grad=Recipe(Normal(7)),
    y=Recipe(Constant(0.25)),
    behind=Recipe(Constant("nan")),
    bias=Recipe(Constant(-0.5), (Mask("even", value=1.0),)),
    parameters={"scale": 0.5},
)


def test_a_line_without_operands_is_what_it_was():
    line = json.loads(encode_case(case_of(LOGITS)))
    assert "operands" not in line
    assert line["digest"] == "32d80678a4f2fd9a"


def test_a_line_with_operands_reads_back():
    case = case_of(LOGITS, operands=EVERYTHING)
    read = decode_case(encode_case(case))
    assert read == case
    check_contents(read)
    assert json.loads(encode_case(case))["operands"]["target"] == [3, 0, 1]
    assert read.named()["grad"].shape == (3, 4)
    assert read.named(2)["target"].tolist() == [3, 0]


def test_small_cases_write_operands_out_and_their_digest_is_the_recipes():
    case = case_of(LOGITS, operands=EVERYTHING)
    assert case.operands.y == ("3400 3400 3400 3400",) * 3
    check_contents(msgspec.structs.replace(case, operands=EVERYTHING))


@pytest.mark.parametrize(
    "other",
    [
        None,
        {"target": (3, 0, 2)},
        {"grad": Recipe(Normal(8))},
        {"y": None},
        {"bias": Recipe(Constant(0.0))},
        {"parameters": {"scale": 0.25}},
    ],
)
def test_all_that_is_named_tells_in_the_digest(other):
    changed = None if other is None else msgspec.structs.replace(EVERYTHING, **other)
    assert case_of(LOGITS, operands=changed).digest != case_of(LOGITS, operands=EVERYTHING).digest


def test_a_part_takes_its_operands_along():
    case = case_of(LOGITS, operands=EVERYTHING)
    part = case.part(np.array([2, 0]), np.array([1, 3]))
    assert part.operands.target == (0, 1)
    assert part.shape == (2, 2)
    np.testing.assert_array_equal(part.named()["grad"], case.named()["grad"][[2, 0]][:, [1, 3]])
    check_contents(part)
    assert case.part(np.array([0]), np.array([0, 1])) is None


def test_an_ignored_target_needs_no_column():
    case = case_of(LOGITS, operands=Operands(target=(-100, 1, 2), parameters={"ignore_index": -100}))
    assert case.part(np.array([0, 1]), np.array([1])).operands.target == (-100, 0)


@pytest.mark.parametrize(
    ("operands", "said"),
    [
        (Operands(), "names none"),
        (Operands(target=(0, 1)), "names 2 targets, but its shape says 3 rows"),
        (Operands(target=(0, 1, 4)), "target of row 2 is 4; expected a column from 0 to 3"),
        (Operands(target=(0, 1, -100)), "target of row 2 is -100"),
        (Operands(grad=("3c00 3c00 3c00 3c00",)), "grad holds 1 rows"),
        (Operands(grad=Recipe(Constant("nan"))), "grad holds NaN"),
        (Operands(bias=Recipe(Constant(0.0001))), "is no float16; expected a matrix that is the exact sum"),
    ],
)
def test_what_does_not_fit_is_refused(operands, said):
    with pytest.raises(UsageError, match=said):
        check_contents(case_of(LOGITS, operands=operands))


def test_a_bias_is_what_can_be_taken_off_and_added_again():
    case = case_of([[1.0, -np.inf], [2.5, 0.0]], operands=Operands(bias=Recipe(Constant(0.5))))
    check_contents(case)
    seen = decode(case.bits(), FLOAT16) - case.named()["bias"]
    assert seen.tolist() == [[0.5, -np.inf], [2.0, -0.5]]
