"""Causes of honest slips: the right one each, one for each slip, and no mend that the findings do not show."""

import pytest
import wrong_kernels
from causes_of_kernels import causes, reworded

ADDED = "as where a small number is added to the denominator"
LANES = "a logit of 0 in each lane beyond the row, up to "
RUNNING = "a running sum over tiles of {} that is not rescaled"
NO_MAXIMUM = "overflows float32"

SLIPS = [
    ("epsilon", "float32", "softmax", f"too large by the same 1e-06, {ADDED}"),
    ("large_epsilon", "float16", "softmax", f"too large by the same 0.01, {ADDED}"),
    ("zeros_beyond_the_row", "float32", "softmax", f"{LANES}a power of two"),
    ("zeros_beyond_the_row", "bfloat16", "softmax", f"{LANES}a power of two"),
    ("zeros_beyond_tiles", "float16", "softmax", f"{LANES}whole tiles of 64"),
    ("not_rescaled", "float32", "softmax", RUNNING.format(128)),
    ("not_rescaled", "float16", "softmax", RUNNING.format(128)),
    ("not_rescaled_logsumexp", "float32", "logsumexp", RUNNING.format(64)),
    ("no_maximum", "float32", "softmax", NO_MAXIMUM),
    ("no_maximum", "float16", "softmax", NO_MAXIMUM),
    ("exp2_for_exp", "float32", "softmax", "times ln 2, as where exp2 stands for exp"),
    ("scaled", "float16", "softmax", "times 0.9"),
    ("scaled_logarithm", "float32", "log_softmax", "times 0.9"),
    ("sixteen_bits", "float16", "softmax", "intermediate results seem to be rounded to float16"),
    ("sixteen_bits", "bfloat16", "softmax", "intermediate results seem to be rounded to bfloat16"),
    ("columns_left_out", "float32", "softmax", "the answers are those without the columns beyond a fixed number"),
    ("low_mask", "float32", "softmax", "a finite number stands for -inf"),
    ("nan_left_out", "float32", "softmax", "a row that holds a NaN"),
]


@pytest.mark.parametrize(("name", "dtype", "operation", "words"), SLIPS)
def test_a_slip_has_one_cause_and_it_is_the_right_one(name, dtype, operation, words):
    (cause,) = causes(getattr(wrong_kernels, name), dtype, operation=operation)
    assert words in cause.text


@pytest.mark.parametrize("effort", ["normal", "quick"])
@pytest.mark.parametrize("name", ["epsilon", "not_rescaled", "zeros_beyond_the_row"])
def test_probes_over_sizes_add_no_cause(name, effort):
    [words] = [words for known, dtype, _, words in SLIPS if (known, dtype) == (name, "float32")]
    (cause,) = causes(getattr(wrong_kernels, name), "float32", effort=effort, probes=("sizes",))
    assert words in cause.text


def test_a_right_function_has_no_cause():
    assert causes(wrong_kernels.right, "float16") == ()


@pytest.mark.parametrize("name", ["capped", "scaled_noisily", "sums_halved"])
def test_what_no_slip_foretells_is_told_as_it_was_seen(name):
    found = causes(getattr(wrong_kernels, name), "float32")
    assert found
    assert not any(cause.mend for cause in found)
    foretold = (ADDED, LANES, "not rescaled", "overflows", "times")
    assert not any(words in cause.text for cause in found for words in foretold)


@pytest.mark.parametrize(("name", "dtype"), [("zeros_beyond_the_row", "float32"), ("low_mask", "float16")])
def test_other_words_change_no_cause(name, dtype):
    function = getattr(wrong_kernels, name)
    probes = ("sizes",) if dtype == "float32" else ()
    assert causes(function, dtype, effort="quick", probes=probes) == causes(
        function, dtype, effort="quick", probes=probes, change=reworded
    )
