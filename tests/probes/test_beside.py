"""Findings of ``sizes`` and ``shapes`` say so if rows and columns decide together, and hold for all judged shapes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from predicate_reading import shapes_that
from probe_helpers import conclusion

from softcheck.contract import FindingKind
from softcheck.probes.predicate import Shape, where_of


def wrong_where(fails):
    def softmax(x):
        result = torch.softmax(x, dim=-1)
        return result * 1.25 if x.numel() and fails(*x.shape) else result

    return softmax


def message(probe, fails):
    found = conclusion(probe, wrong_where(fails), "float16", effort="quick").findings
    return next(s.violation.message for s in found if s.violation.kind is FindingKind.SUM_VIOLATION)


@pytest.mark.parametrize(
    ("words", "fails"),
    [
        ("N > 256 (", lambda _, columns: columns > 256),
        ("rows >= 2 and columns > 256 (", lambda rows, columns: rows > 1 and columns > 256),
        ("rows < 6 and columns > 256 (", lambda rows, columns: rows < 6 and columns > 256),
        ("rows >= 2 (", lambda rows, _: rows > 1),
    ],
)
def test_a_width_that_is_wrong_in_some_row_counts_alone(words, fails):
    assert message("sizes", fails).startswith(words)


@pytest.mark.parametrize(
    ("words", "fails"),
    [
        ("rows >= 16 (", lambda rows, _: rows > 15),
        (
            "rows >= 16 and columns <= 200 (",
            lambda rows, columns: rows > 15 and columns < 201,
        ),
        ("rows = 1 and columns > 64 (", lambda rows, columns: rows == 1 and columns > 64),
    ],
)
def test_a_row_count_that_is_wrong_in_some_widths_alone(words, fails):
    assert message("shapes", fails).startswith(words)


@given(rows=st.integers(1, 40), columns=st.integers(1, 2000), tall=st.booleans(), wide=st.booleans())
def test_the_words_hold_for_every_judged_shape(rows, columns, tall, wide):
    def judge(shape):
        return (shape.rows >= rows) is tall and (shape.columns >= columns) is wide

    tried = {Shape(2, n) for n in (1, 7, 100, 513, 1025)} | {Shape(n, width) for n in (1, 9, 33) for width in (1, 513)}
    failing = {shape for shape in tried if judge(shape)}
    where = where_of(tried, failing, "columns") if failing else None
    words = where.words() if where is not None and not where.partly else ""
    assert not words or shapes_that(words, tried, failing) == failing


def test_no_predicate_is_said_where_none_holds():
    tried = [Shape(rows, columns) for rows in (1, 2, 3, 4) for columns in (5, 6, 7, 8)]
    assert where_of(tried, [shape for shape in tried if sum(shape) % 2], "columns").partly
