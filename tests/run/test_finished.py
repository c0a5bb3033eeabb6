"""Finished parts: the same measurement in whatever order they come, in few blocks, and on the disk."""

import numpy as np
import pytest
from msgspec.structs import replace

from softcheck.cases.exhaustive import domain
from softcheck.contract import FindingKind, Violation
from softcheck.judge.measurement import Extreme, unmeasured
from softcheck.run import exhaust
from softcheck.run.exhaust import ExhaustHeader, FinishedParts, FinishedRange, Parts, rows_of_a_part

COUNT = 1000
DRAWN = np.random.default_rng(1)
ERRORS = DRAWN.random(COUNT)


def part(number, *violations):
    found = replace(unmeasured((8, 2), violations), elements=16, ulp_sum=float(ERRORS[number]))
    return replace(found, max_ulp=Extreme(float(round(ERRORS[number], 2)), number, 0, "0000", "3c00"))


def finished(order):
    parts = FinishedParts(COUNT)
    for number in order:
        parts.add(FinishedRange(0, int(number), part(number)))
    return parts


def test_the_order_does_not_count_and_few_blocks_are_held():
    orders = [range(COUNT), range(COUNT)[::-1], DRAWN.permutation(COUNT), DRAWN.permutation(COUNT)]
    found = [finished(order) for order in orders]
    assert all(parts.blocks == found[0].blocks for parts in found)
    assert len(found[0].blocks) == 6, "1000 = 512 + 256 + 128 + 64 + 32 + 8"
    assert found[0].rows == 8 * COUNT
    sums = [block.measurement.ulp_sum for block in found[0].blocks]
    assert sum(sums) == pytest.approx(ERRORS.sum())
    largest = max((block.measurement.max_ulp for block in found[0].blocks), key=lambda extreme: extreme.value)
    assert largest.row == int(np.argmax(ERRORS.round(2))), "the first row of the largest error"


def test_what_is_missing_is_named():
    done = set(DRAWN.permutation(COUNT)[:700].tolist())
    parts = finished(done)
    assert set(parts.missing()) == set(range(COUNT)) - done


def test_a_part_without_an_output_stays_on_its_own():
    parts = finished(range(8))
    assert len(parts.blocks) == 1
    parts.add(FinishedRange(0, 8, part(8, Violation(FindingKind.CRASH, "gone"))))
    parts.add(FinishedRange(0, 9, part(9)))
    assert [(block.level, block.index) for block in parts.blocks] == [(3, 0), (0, 8), (0, 9)]


def test_the_journal_of_a_long_run_stays_small(tmp_path, monkeypatch):
    monkeypatch.setattr(exhaust, "_COMPACTED_AFTER", 100)
    header = ExhaustHeader(
        variant="v",
        domain=domain("float16", 3, first=8 * COUNT),
        device="CPU",
        torch="2",
        triton="3",
        rows_at_once=8,
        sources={},
    )
    parts = Parts(tmp_path / "journal", header, resume=False)
    sizes = []
    # As several devices finish them: in order but for a few.
    order = np.concatenate([DRAWN.permutation(np.arange(k, k + 10)) for k in range(0, 950, 10)])
    for number in order:
        parts.add(int(number), part(int(number)))
        sizes.append((tmp_path / "journal").stat().st_size)
    assert max(sizes) > 4 * sizes[899], "it is written anew while parts come"
    parts.close()
    resumed = Parts(tmp_path / "journal", header, resume=True)
    assert resumed.finished.blocks == parts.finished.blocks
    assert len(list(resumed.finished.missing())) == 50
    resumed.close()


def test_all_triples_are_some_thousand_parts_on_a_gpu():
    triples = domain("float16", 3)
    assert triples.total // rows_of_a_part(triples, "cuda") == 2**14
    assert rows_of_a_part(domain("float16", 2), "cuda") == 2**26
    ascending = domain("float16", 3, ascending=True)
    assert rows_of_a_part(ascending, "cuda") % 2**26 == 0
    assert 2**13 < ascending.total // rows_of_a_part(ascending, "cuda") < 2**14
