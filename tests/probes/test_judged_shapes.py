"""Shapes that were judged: each stands in a report once per kind, and comes back as it was."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from probe_helpers import conclusion

from softcheck.probes.predicate import RIGHT, by_kind, written


def read(text):
    for word in text.split():
        rows, _, widths = word.partition("x")
        first, _, last = widths.partition("-")
        yield from ((int(rows), n) for n in range(int(first), int(last or first) + 1))


SIZES = st.frozensets(st.tuples(st.integers(0, 40), st.integers(0, 40)))


@given(SIZES)
def test_written_shapes_are_read_back(shapes):
    found = list(read(written(shapes)))
    assert sorted(found) == sorted(shapes)


def test_neighbouring_widths_are_one_word():
    shapes = [(2, n) for n in range(1, 1101)] + [(2, 2048), (4, 1), (4, 3)]
    assert written(shapes) == "2x1-1100 2x2048 4x1 4x3"


@given(SIZES, SIZES, SIZES)
def test_a_shape_is_right_if_nothing_failed_there(judged, one, other):
    found = {kind: set(read(text)) for kind, text in by_kind(judged, [("a", one), ("b", other)]).items()}
    expected = {"a": one, "b": other, RIGHT: judged - one - other}
    assert found == {kind: set(shapes) for kind, shapes in expected.items() if shapes}


def fails_beyond(rows, columns):
    def softmax(x):
        result = torch.softmax(x, dim=-1)
        return result * 1.25 if x.shape[0] >= rows and x.shape[1] > columns else result

    return softmax


def test_sizes_tell_each_width_with_its_rows():
    found = conclusion("sizes", fails_beyond(1, 512), "float32", effort="quick")
    wrong = set(found.failing["ulp_exceeds_bound"])
    right = set(found.tried) - wrong
    # The narrowest that fails is tried in other row counts too.
    assert {rows for rows, _ in wrong} > {1, 2}
    assert 2 in {rows for rows, _ in right}
    assert min(columns for _, columns in wrong) == 513 > max(columns for _, columns in right)


def test_row_counts_and_shapes_of_regimes_are_told_too():
    for probe in ("shapes", "regimes"):
        found = conclusion(probe, fails_beyond(33, 100), "float32", effort="quick" if probe == "regimes" else "normal")
        wrong = set(found.failing["ulp_exceeds_bound"])
        right = set(found.tried).difference(*found.failing.values())
        assert wrong
        assert all(rows >= 33 and columns > 100 for rows, columns in wrong)
        assert not any(rows >= 33 and columns > 100 for rows, columns in right)
        assert {rows for rows, _ in right} >= {1, 2}
