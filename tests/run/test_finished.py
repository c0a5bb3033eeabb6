"""Finished parts: the same measurement in whatever order they come, and on the disk."""

import numpy as np
from msgspec.structs import replace

from softcheck.cases.exhaustive import domain
from softcheck.judge.measurement import Extreme, merge, unmeasured
from softcheck.run.exhaust import Parts, rows_of_a_part
from softcheck.run.journal import RunHeader
from softcheck.run.protocol import Ready

COUNT = 1000
DRAWN = np.random.default_rng(1)
ERRORS = DRAWN.random(COUNT)


def part(number, *violations):
    found = replace(unmeasured((8, 2), violations), elements=16, ulp_sum=float(ERRORS[number]))
    return replace(found, max_ulp=Extreme(float(round(ERRORS[number], 2)), number, 0, "0000", "3c00"))


def opened(path, *, resume=False):
    ready = Ready("interpreter", "CPU", "2", "3", "3", None)
    header = RunHeader(softcheck="0", ready=ready, asked={"variant": "v"}, sources={})
    return Parts(path, header, domain("float16", 3, first=8 * COUNT), 8, resume=resume)


def finished(path, order):
    parts = opened(path)
    for number in order:
        parts.add(int(number), part(int(number)))
    parts.close()
    return parts


def test_the_order_does_not_count(tmp_path):
    orders = [range(COUNT), range(COUNT)[::-1], DRAWN.permutation(COUNT)]
    found = [merge(finished(tmp_path / str(n), order).measurements) for n, order in enumerate(orders)]
    assert found[0] == found[1] == found[2]
    assert found[0].rows == 8 * COUNT
    assert found[0].max_ulp.row == int(np.argmax(ERRORS.round(2))), "the first row of the largest error"


def test_what_is_missing_is_named_also_when_the_run_goes_on(tmp_path):
    done = set(DRAWN.permutation(COUNT)[:700].tolist())
    parts = finished(tmp_path / "journal", done)
    resumed = opened(tmp_path / "journal", resume=True)
    assert set(parts.missing) == set(resumed.missing) == set(range(COUNT)) - done
    assert resumed.measurements == parts.measurements
    resumed.close()


def test_all_triples_are_some_thousand_parts_on_a_gpu():
    triples = domain("float16", 3)
    assert triples.total // rows_of_a_part(triples, "cuda") == 2**14
    assert rows_of_a_part(domain("float16", 2), "cuda") == 2**26
    ascending = domain("float16", 3, kind="ascending")
    assert rows_of_a_part(ascending, "cuda") % 2**26 == 0
    assert 2**13 < ascending.total // rows_of_a_part(ascending, "cuda") < 2**14
