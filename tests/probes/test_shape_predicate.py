"""The words for failing shapes hold for exactly these among the tried ones."""

import pytest

from softcheck.probes.shape_plan import Shape
from softcheck.probes.shape_predicate import describe_shapes

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
    assert describe_shapes(GRID, {shape for shape in GRID if fails(shape)}) == words
