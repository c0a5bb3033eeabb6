"""The words for failing shapes hold for exactly these among the tried ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from predicate_reading import shapes_that

from softcheck.probes.predicate import Shape, shapes_where

GRID = [Shape(rows, columns) for rows in (1, 2, 8, 64, 65, 100, 9000) for columns in (1, 5, 255, 256, 257, 300, 1024)]


@pytest.mark.parametrize(
    ("words", "fails"),
    [
        ("all shapes tried", lambda _: True),
        ("columns > 256", lambda shape: shape.columns > 256),
        ("rows = 1", lambda shape: shape.rows == 1),
        ("elements >= 19200", lambda shape: shape.elements >= 18001),
        ("rows >= 64 and columns > 256", lambda shape: shape.rows >= 64 and shape.columns > 256),
        ("rows = 1 and columns > 256", lambda shape: shape.rows == 1 and shape.columns in {257, 300, 1024}),
        ("not (rows >= 64 and columns > 256)", lambda shape: shape.rows < 64 or shape.columns < 257),
        ("rows x columns = 65 x 5, 2 x 257, 8 x 300", lambda s: s in {(8, 300), (2, 257), (65, 5)}),
    ],
)
def test_predicates(words, fails):
    failing = {shape for shape in GRID if fails(shape)}
    assert shapes_where(GRID, failing).words() == words
    assert shapes_that(words, GRID, failing) == failing


@given(data=st.data())
def test_holds_for_exactly_the_failing_shapes(data):
    sizes = st.integers(1, 40) | st.sampled_from([64, 256, 257, 1024, 9000])
    tried = data.draw(st.sets(st.builds(Shape, sizes, sizes), min_size=1, max_size=25))
    limits = data.draw(st.tuples(sizes, sizes, st.sampled_from([1, 2, 3, 8])))
    chosen = data.draw(st.sets(st.sampled_from(sorted(tried)), min_size=1))
    far = {s for s in tried if s.rows >= limits[0] and s.columns <= limits[1] and s.columns % limits[2] == 0}
    for failing in filter(None, (chosen, far)):
        assert shapes_that(shapes_where(tried, failing).words(), tried, failing) == failing
