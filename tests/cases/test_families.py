"""The case families and their corpora."""

import collections
import re
from pathlib import Path

import numpy as np
import pytest

from oracles.formats import FORMATS, decode, encode
from oracles.reference import RowClass, classify
from softcheck.cases.case import check_layout
from softcheck.cases.corpus import builtin_root, load
from softcheck.cases.families import FAMILIES, OF_OPERATIONS

PLACES = {family: corpus for corpus, families in {"edge": FAMILIES, **OF_OPERATIONS}.items() for family in families}
EDGE = {case.id: case for case in load(["edge"])}
REPOSITORY = Path(__file__).parents[2]


def of(family, dtype):
    return [case for case in EDGE.values() if case.family == family and case.dtype == dtype]


def values_of(case_id):
    case = EDGE[case_id]
    return decode(case.bits(), case.format)


def test_field_reports_that_cases_cite_are_those_of_the_documentation():
    text = (REPOSITORY / "docs" / "field_reports.md").read_text(encoding="utf-8")
    reports = dict(re.findall(r"^\| (\d+) \| ([^|]+?) +\|", text, flags=re.MULTILINE))
    cited = {re.fullmatch(r"field report (\d+) \((.*)\)", case.provenance) for case in load(["edge", *OF_OPERATIONS])}
    assert len(cited) > 50
    assert all(reports[found[1]] == found[2] for found in cited if found)


@pytest.mark.parametrize("corpus", ["edge", *OF_OPERATIONS])
def test_there_is_a_file_for_every_family_and_no_other(corpus):
    families = sorted(family for family, place in PLACES.items() if place == corpus)
    assert sorted(file.stem for file in (builtin_root() / corpus).glob("*.jsonl")) == families
    assert sum(file.stat().st_size for file in (builtin_root() / corpus).iterdir()) < 2_000_000


@pytest.mark.parametrize("operation", OF_OPERATIONS)
def test_every_operation_has_cases_of_its_own(operation):
    cases = load([operation])
    assert len(cases) >= 40
    assert sum("field report" in case.provenance for case in cases) >= 20


@pytest.mark.parametrize("dtype", FORMATS)
def test_every_dtype_has_as_many_cases(dtype):
    assert len([case for case in EDGE.values() if case.dtype == dtype]) >= 150
    assert all(of(family, dtype) for family in FAMILIES)


def test_inputs_differ_and_say_where_they_come_from():
    assert len({case.digest for case in EDGE.values()}) == len(EDGE)
    assert all(case.provenance for case in EDGE.values())
    assert all((case.rows is None) == (case.shape[0] * case.shape[1] > 300) for case in EDGE.values())


def test_no_two_cases_share_random_numbers():
    """Two rows that differ by a shift are one row to softmax."""
    seeds = collections.defaultdict(set)
    for case in load(["edge", *OF_OPERATIONS]):
        if case.dtype == "float32" and (seed := getattr(getattr(case.recipe, "start", None), "seed", None)) is not None:
            seeds[type(case.recipe.start), seed].add(case.id)
    assert len(seeds) > 50
    assert [cases for cases in seeds.values() if len(cases) > 1] == []


def test_layouts_do_not_contradict_their_bits():
    layouts = [case for case in EDGE.values() if not case.layout.is_contiguous(case.shape[1])]
    assert len({(case.layout.row_stride, case.layout.column_stride, case.layout.offset) for case in layouts}) > 8
    for case in layouts:
        check_layout(case.bits(), case)


@pytest.mark.parametrize("dtype", FORMATS)
def test_only_some_families_hold_special_rows(dtype):
    special = {"special", "padding", "format-specials", "random-bits", "temperature", "finfo-min"}
    for family in set(FAMILIES) - special - {"wide", "rows", "sources"}:
        for case in of(family, dtype):
            classes = classify(decode(case.bits(8), case.format))
            assert (classes == RowClass.ORDINARY).all(), case.id


@pytest.mark.parametrize("dtype", FORMATS)
def test_special_rows_are_there_in_every_class(dtype):
    found = set()
    for family in ("special", "padding", "finfo-min"):
        for case in of(family, dtype):
            found |= set(classify(decode(case.bits(), case.format)).tolist())
    assert found == {RowClass.ORDINARY, RowClass.NOT_A_NUMBER, RowClass.FULLY_MASKED}


def exact_softmax(values):
    """Softmax in extended precision, enough to tell errors of half a float16 or float32 ULP."""
    wide = values.astype(np.longdouble)
    e = np.exp(wide - wide.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True)).astype(np.float64)


def ulps(got, exact, fmt):
    quantum = 2.0 ** (np.maximum(np.frexp(exact)[1] - 1, fmt.min_exponent) - fmt.precision + 1)
    return (np.abs(got - exact) / quantum).max()


def shifted_errors(case_id):
    """Largest ULP error of a float32 kernel that subtracts first, and of one that scales by log2 e first."""
    case = EDGE[case_id]
    x = values_of(case_id).astype(np.float32)
    exact = exact_softmax(x)
    log2_e = np.float32(1.4426950408889634)
    scaled = x * log2_e
    errors = []
    for powers in (
        (x - x.max(axis=1, keepdims=True)) * log2_e,
        scaled - scaled.max(axis=1, keepdims=True),
    ):
        e = np.exp2(powers.astype(np.float64)).astype(np.float32)
        y = (e / e.sum(axis=1, keepdims=True)).astype(np.float64)
        errors.append(ulps(decode(encode(y, case.format), case.format), exact, case.format))
    return errors


@pytest.mark.parametrize(
    ("case_id", "least"),
    [
        ("shifted/spacing-8-33/float16", 1.0),
        ("shifted/same-row-9/float16", 1.0),
        ("shifted/spacing-1-33/float32", 1e5),
        ("shifted/spacing-8-1025/float32", 1e5),
    ],
)
def test_shifted_rows_show_a_scaling_before_the_subtraction(case_id, least):
    right, prescaled = shifted_errors(case_id)
    assert prescaled > least
    assert right < 0.51 if case_id.endswith("float16") else right < 64


@pytest.mark.parametrize("dtype", FORMATS)
def test_shifted_rows_are_shifts_of_each_other_exactly(dtype):
    rows = values_of(f"shifted/same-row-9/{dtype}")
    assert len(rows) == 6
    assert (rows - rows[:, :1] == (rows - rows[:, :1])[0]).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_subnormal_results_cross_the_whole_subnormal_range(dtype):
    fmt = FORMATS[dtype]
    found = np.concatenate([exact_softmax(values_of(case.id)).ravel() for case in of("subnormal-results", dtype)])
    assert ((found > fmt.least_normal / 2) & (found < fmt.least_normal)).any()
    assert ((found > fmt.least_subnormal) & (found < 2 * fmt.least_subnormal)).any()
    assert ((found > 0) & (found < fmt.least_subnormal / 2)).any()


def test_float64_results_are_subnormal_too():
    for name in ("ramp-129", "around-thresholds-33", "spread-257"):
        found = exact_softmax(values_of(f"subnormal-results/{name}/float64"))
        assert ((found > 0) & (found < 2.0**-1022)).any()


@pytest.mark.parametrize("dtype", FORMATS)
def test_padding_with_zero_would_outweigh_every_row_of_widths(dtype):
    for case in of("widths", dtype):
        assert decode(case.bits(), case.format).max() < 0


def test_one_hot_peaks_visit_every_column():
    for columns in (7, 33, 129):
        assert values_of(f"one-hot/every-position-{columns}/float32").argmax(axis=1).tolist() == list(range(columns))
