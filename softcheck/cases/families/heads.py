"""Heads of attention: hidden tiles, scores below sentinels, tails of keys, parts of split keys."""

from collections.abc import Iterator

from oracles.formats import Format
from softcheck.cases.families.draft import Draft, made
from softcheck.cases.recipe import Constant, Mask, Normal, Put

_BELOW = -55000.0
"""Mean of scores below -5e4 that float16 holds."""


def heads(_fmt: Format) -> Iterator[Draft]:
    """Rows whose logits are scores of keys, -inf where a key is hidden; lengths around tiles of 16, 32 and 64 keys."""
    for seed, columns in enumerate((33, 65, 97), 700):
        hidden = Mask("leading", 32, row=0), Mask("leading", columns - 1, row=1)
        yield made(f"hidden-tile-{columns}", 3, columns, Normal(seed, 2.0, -100.0), *hidden, why=96, tags="mask")
    for seed, columns in enumerate((33, 129), 710):
        yield made(f"below-a-sentinel-{columns}", 2, columns, Normal(seed, 2.0, _BELOW), why=97)
    for seed, columns in enumerate((5, 65), 720):
        nothing = Mask("all", row=0)
        yield made(f"no-keys-{columns}", 3, columns, Normal(seed, 2.0), nothing, why=98, tags="mask special")
        some = Mask("all", row=1), Put(columns - 1, -30000.0, row=1)
        yield made(f"one-low-key-{columns}", 3, columns, Normal(seed + 5, 2.0), *some, why=103, tags="mask")
    for seed, columns in enumerate((16, 32, 64, 128), 730):
        kept = Mask("trailing", 5, row=0), Mask("even", row=1)
        yield made(f"whole-tiles-{columns}", 3, columns, Normal(seed, 3.0), *kept, why=61, tags="mask")
    for seed, columns in enumerate((17, 66, 131), 740):
        tail = Mask("trailing", columns % 16, row=0), Mask("trailing", columns - 1, row=1)
        yield made(f"unwritten-tail-{columns}", 3, columns, Normal(seed, 2.0), *tail, why=104, tags="mask")
    for seed, columns in enumerate((48, 130), 750):
        parts = Mask("leading", columns // 2, row=0), Mask("trailing", columns // 2, row=1)
        yield made(f"hidden-part-{columns}", 3, columns, Normal(seed, 4.0), *parts, why=99, tags="mask")
        high = Put(columns - 1, 90.0, row=0), Put(0, 90.0, row=1)
        yield made(f"part-far-above-{columns}", 3, columns, Normal(seed + 5, 2.0), *high, why=106)
    for seed, columns in enumerate((33, 67), 760):
        yield made(f"steep-{columns}", 3, columns, Normal(seed, 30.0), why=58)
    for seed, columns in enumerate((7, 100), 770):
        yield made(f"short-{columns}", 3, columns, Normal(seed, 2.0), why=66)
    yield made("equal-keys-600", 2, 600, Constant(0.5), why=55)
    yield made(
        "nan-in-a-key-40", 3, 40, Normal(780), Put(3, "nan", row=0), Put(39, "nan", row=1), why=63, tags="special"
    )
