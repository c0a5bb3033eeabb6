"""Timing as only a GPU can show it: cheats in the act, a cold cache, graphs, and the same variant under two names."""

from pathlib import Path

import pytest

from softcheck.report.speed import shape_speed
from softcheck.run.session import Session
from softcheck.speed.samples import ShapeSamples
from softcheck.speed.statistics import ratio_interval
from softcheck.variants.registry import BUILTIN_OF

pytestmark = pytest.mark.gpu
KERNELS = Path(__file__).parents[1] / "kernels"
ALIASES = Path(__file__).parents[2] / "benchmarks" / "aa_variants.py"


@pytest.fixture(scope="module")
def session():
    opened = Session("cuda", jobs=1, seconds_per_call=120.0)
    yield opened
    opened.close()


def timed(session, variants, shape, *, dtype="float16", seed=0, seconds=0.5):
    samples = session.time(variants, dtype, shape, seed=seed, seconds=seconds)
    assert isinstance(samples, ShapeSamples), samples
    return samples, {s.name: s for s in samples.variants}


def test_right_kernels_are_timed_below_what_memory_allows(session):
    samples, found = timed(session, ["one_block", "torch"], (8192, 8192))
    assert samples.cache == "cold"
    for name in ("one_block", "torch"):
        assert found[name].reason is None
        share = ratio_interval(samples.copy.seconds, found[name].seconds).mid
        assert share < 1.2, "no softmax is much faster than a copy; the input must have come from the cache"


def test_short_launches_are_replayed_from_a_graph(session):
    samples, found = timed(session, ["one_block", "eager_compiled"], (4096, 1024))
    for variant in found.values():
        assert (variant.reason, variant.method) == (None, "graph"), variant
        assert len(variant.launch_seconds) == samples.rounds
    figures = shape_speed(samples, {}).variants[0]
    assert figures.launch_seconds.mid > figures.seconds.mid


def test_kernel_that_skips_work_is_not_timed(session):
    _, found = timed(session, ["notebook_vectorized", "one_block"], (8192, 8192))
    assert "wrong" in found["notebook_vectorized"].reason
    assert found["one_block"].reason is None


@pytest.mark.parametrize("shape", [(8192, 8192), (4096, 1024), (64, 128)])
@pytest.mark.parametrize("cheat", ["skips_after_some_calls", "keeps_answers_by_pointer", "works_on_another_stream"])
def test_cheat_is_refused_and_the_honest_one_beside_it_is_timed(session, cheat, shape):
    _, found = timed(session, [f"{KERNELS / 'cheats.py'}:{cheat}", "torch"], shape, seconds=0.3)
    refused, honest = found.values()
    assert refused.seconds == ()
    assert refused.reason
    assert honest.reason is None


def test_same_variant_under_two_names_takes_the_same_time(session):
    names = [f"{ALIASES}:first", f"{ALIASES}:second"]
    _, found = timed(session, names, (8192, 8192), dtype="float32", seconds=1.0)
    ratio = ratio_interval(found[names[0]].seconds, found[names[1]].seconds)
    assert abs(ratio.mid - 1) < 0.005, ratio


def test_variant_that_ruins_the_device_leaves_the_others_their_figures(session):
    bad = f"{KERNELS / 'on_gpu.py'}:reads_far_away"
    _, found = timed(session, [bad, "torch"], (256, 512))
    assert found[bad].reason
    assert found["torch"].reason is None


@pytest.mark.parametrize(
    ("operation", "shape", "operands"),
    [
        ("cross_entropy", (8192, 128256), ("target",)),
        ("softmax_backward", (8192, 8192), ("grad", "y")),
        ("log_softmax_backward", (8192, 8192), ("grad", "y")),
    ],
)
def test_operations_with_operands_are_timed_below_what_memory_allows(session, operation, shape, operands):
    names = list(BUILTIN_OF[operation])
    declarations = {name: session.load(name, ("bfloat16",)) for name in names}
    samples, found = timed(session, names, shape, dtype="bfloat16", seconds=1.0)
    assert samples.operands == operands
    figures = shape_speed(samples, declarations)
    assert figures.operation == operation
    peak = 1.1 * figures.copy_gb_per_s
    for variant in figures.variants:
        assert found[variant.variant].reason is None
        assert variant.gb_per_s < peak, "the operands must have come from the cache"


@pytest.mark.parametrize("kernel", ["takes_what_is_hidden", "takes_a_bias"])
def test_masks_are_timed_beside_torch_with_the_same(session, kernel):
    spec = f"{KERNELS / 'masked.py'}:{kernel}"
    assert not isinstance(session.load(spec, ("float16",)), str)
    samples, found = timed(session, [spec], (8192, 4096))
    assert found[spec].reason is None
    ratio = ratio_interval(samples.torch.seconds, found[spec].seconds).mid
    assert 0.9 < ratio < 1.1, "the kernel is torch's own, and so is what it is timed beside"
