"""The operation attention: its operands, calls of any signature, its bound and its rules."""

from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from family_cases import cases_of

from oracles.formats import FORMATS, decode, encode
from softcheck.errors import UsageError
from softcheck.judge.judge import judge
from softcheck.judge.tensors import judge_tensors
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.heads import Attending
from softcheck.operations.registry import operation
from softcheck.run.plan import left_out
from softcheck.run.protocol import Measured, RunCase
from softcheck.run.serving import Server
from softcheck.run.session import Session
from softcheck.variants.declaration import Declaration

KERNELS = Path(__file__).parents[1] / "kernels" / "attentions.py"
ATTENDING = Attending(head_dim=16, scale=0.25)


def logits(rows=6, columns=9, seed=0, dtype=torch.float32):
    return (torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * 3).to(dtype)


def test_a_mask_hides_other_keys_from_each_query():
    masked, queries = Attending(masked=True), torch.arange(20)
    x = logits(rows=64, columns=20)
    x[:, 7] = -torch.inf
    seen = masked.visible(x, queries)
    assert not seen[..., 7].any()
    varies = (seen != seen[:, :1]).any(dim=2).any(dim=1)
    assert 32 < int(varies.sum()) < 64
    # Of heads that hide nothing by themselves all queries see all other keys; elsewhere one query or another may see none.
    assert seen[~varies].any(dim=2).all()
    assert not seen[varies].any(dim=2).all()
    equal = x.clone()
    equal[:, 1:7] += 1
    assert torch.equal(masked.visible(equal, queries), seen)
    assert torch.equal(masked.visible(x, queries[3:5]), seen[:, 3:5])
    assert Attending().visible(logits(columns=20), queries).all()
    of_padding = Attending(masked=True, key_padding=True).visible(x, queries)
    assert torch.equal(of_padding, (x != -torch.inf)[:, None].expand_as(of_padding))


def test_a_kind_of_mask_without_a_mask_is_refused():
    with pytest.raises(UsageError, match="declare masked=1"):
        operation("attention", {"key_padding": 1.0})
    assert operation("attention", {"key_padding": 1.0, "masked": 1.0}).parameters["key_padding"] == 1.0


@pytest.fixture(scope="module")
def session():
    opened = Session("auto", jobs=1)
    yield opened
    opened.close()


def run(function, families, dtype="bfloat16", widest=130):
    """Kinds with a violation, the largest share of the bound, and the call, on the narrow cases of some families."""
    server, name = Server(torch.device("cpu")), f"{KERNELS}:{function}"
    kinds, share = {}, 0.0
    for case in (case for family in families for case in cases_of(family, dtype) if 0 < case.shape[1] <= widest):
        (reply,) = (r for r in server.answer(RunCase(case, name, first_rows=3)) if isinstance(r, Measured))
        kinds |= {str(violation.kind): violation for violation in reply.result.violations}
        if reply.result.max_bound_share is not None:
            share = max(share, reply.result.max_bound_share.value)
    return kinds, share, server._variant(name).call


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_last_query_scores_the_logits_themselves(dtype):
    x = logits(dtype=dtype)
    q, k, _ = ATTENDING.operands(x)
    assert torch.equal((q.double() @ k.double().mT)[:, -1] * ATTENDING.scale, x.double())
    assert (q[:, :-1, 1:] != 0).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_row_keeps_its_head_in_any_batch(dtype):
    x = logits(dtype=dtype)
    for whole, alone in zip(ATTENDING.operands(x), ATTENDING.operands(x[3:4]), strict=True):
        assert torch.equal(whole[3:4], alone)


@pytest.mark.parametrize("masked", [False, True])
def test_a_bias_differs_between_rows_and_queries_and_hides_if_masked(masked):
    x = logits().masked_fill(torch.eye(6, 9, dtype=torch.bool), -torch.inf)
    attending = Attending(head_dim=16, causal="top-left", groups=2, masked=masked, biased=True)
    found = attending.make(x, frozenset({"bias", "keep"}))
    bias, seen = (found[name].reshape(6, 18, 9) for name in ("bias", "keep"))
    assert torch.equal(bias > -torch.inf, seen | (not masked))
    numbers = attending.bias(x, torch.arange(18))
    assert torch.equal(bias[seen], numbers[seen])
    assert not any(torch.equal(numbers[:, 8], numbers[:, query]) for query in (7, 17))
    assert not torch.equal(numbers[0], numbers[1])
    assert torch.equal(numbers[3:4], attending.bias(x[3:4], torch.arange(18)))


def test_formats_share_queries_and_keys():
    x = logits(dtype=torch.bfloat16)
    for narrow, wide in zip(ATTENDING.operands(x)[:2], ATTENDING.operands(x.float())[:2], strict=True):
        assert torch.equal(narrow.float(), wide)


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("by_heads", "f(q, k, v)"),
        ("with_logarithm", "f(q, k, v)[0]"),
        ("by_length", "f(q_blhd, k_blhd, v_blhd, True)"),
        ("of_three_dimensions", "f(q3, k3, v3, scale)"),
        ("with_mask_of_padding", "f(q, k, v, keep)"),
        ("with_what_is_hidden", "f(q, k, v, mask)"),
        ("with_mask", "f(q, k, v, keep)"),
        ("with_added_mask", "f(q, k, v, bias)"),
        ("with_bias", "f(q, k, v, bias)"),
        ("capped_then_biased", "f(q, k, v, bias)"),
        ("that_selects", "f(q, k, v, keep)"),
        ("with_shared_keys", "f(q, k, v, True, window)"),
        ("capped_with_sinks", "f(q, k, v, softcap, sinks)"),
        ("of_longer_values", "f(q, k, v)"),
    ],
)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_right_functions_keep_the_bound_however_they_are_called(function, call, dtype):
    kinds, share, found = run(function, ("ties", "padding"), dtype, widest=66)
    assert not kinds
    assert 0 < share <= 1
    assert found == call


def test_a_right_function_nearly_reaches_the_bound_of_16_bits():
    kinds, share, _ = run("by_heads", ("normal", "special"), widest=130)
    assert not kinds
    assert 0.4 < share <= 1


@pytest.mark.parametrize(
    ("function", "families", "kinds"),
    [
        ("scores_of_16_bits", ("normal",), {"ulp_exceeds_bound"}),
        ("without_the_last_bias", ("ties",), {"ulp_exceeds_bound"}),
        ("answers_beyond_all_values", ("ties",), {"out_of_range", "ulp_exceeds_bound"}),
        ("mean_where_nothing_is_seen", ("special",), {"masked_not_zero"}),
        ("values_as_long_as_keys", ("ties",), {"ulp_exceeds_bound"}),
        ("that_overlooks_its_mask", ("ties",), {"ulp_exceeds_bound"}),
        ("that_overlooks_its_bias", ("ties",), {"ulp_exceeds_bound"}),
        ("that_overlooks_its_sinks", ("ties",), {"ulp_exceeds_bound"}),
    ],
)
def test_wrong_functions_break_their_rules(function, families, kinds):
    assert kinds <= set(run(function, families)[0])


def outputs(x, fmt, **parameters):
    attention = operation("attention", {"head_dim": 16, **parameters})
    bits = encode(x, fmt)
    return attention, bits, attention.answer(decode(bits, fmt), fmt, "nan").values


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"causal": "top-left"},
        {"causal": "bottom-right", "queries": 3},
        {"causal": "top-left", "window": 2},
        {"value_dim": 7, "groups": 2},
    ],
)
def test_the_exact_answer_passes_and_a_slip_of_its_size_does_not(parameters):
    fmt = FORMATS["float32"]
    attention, bits, exact = outputs(logits().numpy().astype(np.float64), fmt, **parameters)
    assert not judge(bits, encode(exact, fmt), fmt, operation=attention).violations
    wrong = encode(exact * (1 + 2e-4), fmt)
    assert judge(bits, wrong, fmt, operation=attention).violations


_SEEN_BY_TORCH = (
    {},
    {"causal": "bottom-right"},
    {"causal": "top-left"},
    {"causal": "bottom-right", "window": 3.0},
    {"masked": 1.0},
    {"masked": 1.0, "key_padding": 1.0},
    {"biased": 1.0},
    {"biased": 1.0, "masked": 1.0},
    {"softcap": 5.0},
    {"sink": 0.5},
    {"groups": 2.0},
    {"queries": 3.0},
    {"queries": 30.0, "causal": "bottom-right"},
)


@pytest.mark.parametrize("parameters", _SEEN_BY_TORCH, ids=str)
def test_torchs_answer_is_the_exact_one_where_keys_are_hidden(parameters):
    x = logits(6, 16)
    x[(torch.arange(6)[:, None] + torch.arange(16)) % 3 == 0] = -torch.inf
    found = operation("attention", parameters)
    exact = found.answer(x.double().numpy(), FORMATS["float32"], "nan").values
    y = found.yardstick(x).double().numpy().reshape(exact.shape)
    is_due = np.isfinite(exact) & np.isfinite(y)
    # torch gives a query that sees no key NaN or 0.
    assert np.all(is_due | (np.nan_to_num(exact) == 0))
    assert np.abs(y - exact)[is_due].max() < 1e-5


def test_an_earlier_query_sees_no_later_key():
    """NaN in a key spoils the queries that see it, and of the others nothing is demanded unless it is promised."""
    fmt, x = FORMATS["float32"], logits(1, 6).numpy().astype(np.float64)
    x[0, 4] = np.nan
    for promised in (0, 1):
        attention, bits, exact = outputs(x, fmt, causal="top-left", ignores_nan=promised)
        assert np.isnan(exact.reshape(6, 16)).any(axis=1).tolist() == [False] * 4 + [True] * 2
        spoilt = encode(np.full_like(exact, np.nan), fmt)
        assert bool(judge(bits, spoilt, fmt, operation=attention).violations) == bool(promised)


@pytest.mark.parametrize("base", [2.0, np.e])
def test_the_logarithm_of_a_query_that_sees_no_key_is_the_sink(base):
    fmt, x = FORMATS["float32"], torch.full((2, 5), -torch.inf)
    found = operation("attention_logsumexp", {"head_dim": 16.0, "masked": 1.0, "sink": -30.3, "base": base})
    y = found.yardstick(x)
    for judged in (judge, judge_tensors):
        inputs, right, wrong = (
            part if judged is judge_tensors else encode(part.double().numpy(), fmt) for part in (x, y, y + 1e-3)
        )
        assert not judged(inputs, right, fmt, operation=found).violations
        (broken,) = judged(inputs, wrong, fmt, operation=found).violations
        assert (broken.kind, broken.count) == ("ulp_exceeds_bound", 10)


@pytest.mark.parametrize(("word", "promised"), [(None, -np.inf), ("-inf", -np.inf), ("inf", np.inf), ("zero", 0.0)])
@pytest.mark.parametrize("judged", [judge, judge_tensors])
def test_the_logarithm_of_a_query_that_sees_no_key_may_be_declared(judged, word, promised):
    fmt, x = FORMATS["float32"], logits(3, 5)
    x[1] = -torch.inf
    given = {"no_keys": word} if word else {}
    found = operation("attention_logsumexp", {"head_dim": 16.0, "masked": 1.0, **given})
    y = found.yardstick(x)
    without = y == -torch.inf
    assert without[1].all()
    assert not without.all()
    for instead in (-np.inf, np.inf, 0.0, np.nan, 1.5):
        output = y.masked_fill(without, instead)
        inputs, outputs = (
            (x, output) if judged is judge_tensors else (encode(part.double().numpy(), fmt) for part in (x, output))
        )
        measured = judged(inputs, outputs, fmt, operation=found)
        assert sum(each.count for each in measured.violations) == (0 if instead == promised else int(without.sum()))


@pytest.mark.parametrize("given", [{"no_keys": 0.0}, {"no_keys": "nan"}, {"no_keys": "zero", "sink": 1.0}])
def test_other_logarithms_of_no_keys_are_refused(given):
    with pytest.raises(UsageError, match="no_keys"):
        operation("attention_logsumexp", given)


def in_many_digits(x, known):
    """The scores' log-sum-exp with the sink, [rows * queries, 1], and the answers, [rows, queries * dimension]."""
    q, k, v = (part.double().tolist() for part in known.operands(x))
    logarithms, answers = [], []
    with mpmath.workdps(80):
        for row, queries in enumerate(q):
            for query in queries:
                scores = [mpmath.fdot(query, key) * mpmath.mpf(known.scale) for key in k[row]]
                weights = [mpmath.exp(score) for score in scores]
                total = mpmath.fsum(weights) + mpmath.exp(known.sink)
                logarithms.append(float(mpmath.log(total)))
                answers += [float(mpmath.fdot(weights, column) / total) for column in zip(*v[row], strict=True)]
    return np.reshape(logarithms, (len(x), -1)), np.reshape(answers, (len(x), -1))


@pytest.mark.parametrize("far", [699.0, 701.0, 2000.0, 1e30])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", ["attention", "attention_logsumexp"])
def test_far_sinks_are_judged_by_their_own_answer(name, sign, far):
    fmt, x = FORMATS["float32"], logits(2, 5)
    found = operation(name, {"head_dim": 16.0, "sink": sign * far})
    right = in_many_digits(x, found.arguments.make.__self__)[name == "attention"]
    # What float32 can't tell from the answer of a kernel that leaves the sink out, or clamps it, has no slip to find.
    wrong = right + 1e-3 * np.maximum(np.abs(right), 1.0)
    for judged in (judge, judge_tensors):
        inputs = x if judged is judge_tensors else encode(x.double().numpy(), fmt)
        for output, is_right in ((right, True), (wrong, False)):
            given = torch.from_numpy(output).float() if judged is judge_tensors else encode(output, fmt)
            measured = judged(inputs, given, fmt, operation=found)
            assert bool(measured.violations) != is_right, measured
            assert not is_right or measured.max_ulp.value <= 0.5 + 1e-3


@pytest.mark.parametrize("judged", [judge, judge_tensors])
def test_a_sink_far_above_all_scores_is_the_logarithm(judged):
    """A kernel must take such a sink from the scores: its exponential less the largest score overflows. So its errors are those of the sink."""
    fmt, x = FORMATS["float32"], torch.full((1, 3), -2000.0)
    found = operation("attention_logsumexp", {"head_dim": 16.0, "sink": 1.0})
    for output, is_right in ((1.0, True), (1.0 + 1e-5, False), (-1299.0, False)):
        y = torch.full(found.output_shape(1, 3), output)
        if judged is judge:
            measured = judge(encode(x.double().numpy(), fmt), encode(y.double().numpy(), fmt), fmt, operation=found)
        else:
            measured = judge_tensors(x, y, fmt, operation=found)
        assert bool(measured.violations) != is_right


@pytest.mark.parametrize("sink", [np.nan, np.inf, 1e39])
def test_a_sink_that_float32_does_not_hold_is_refused(sink):
    with pytest.raises(UsageError, match="sink is"):
        operation("attention", {"sink": sink})


def test_factors_in_tf32_are_found_and_may_be_declared():
    fmt = FORMATS["float32"]
    x = logits(4, 40).numpy().astype(np.float64)
    attention, bits, _ = outputs(x, fmt)
    q, k, v = (
        t.float() for t in Attending(head_dim=16, scale=0.25).operands(torch.from_numpy(decode(bits, fmt)).float())
    )

    def cut(tensor):
        return (tensor.view(torch.int32) & -(1 << 13)).view(torch.float32)

    weights = torch.softmax((cut(q) @ cut(k).mT) * 0.25, dim=-1)
    found = encode((cut(weights) @ cut(v)).double().numpy().reshape(4, -1), fmt)
    assert {str(v.kind) for v in judge(bits, found, fmt, operation=attention).violations} == {"ulp_exceeds_bound"}
    declared = judge(bits, found, fmt, operation=attention, arithmetic=Arithmetic(products="tf32"))
    assert not declared.violations


def test_large_scores_that_overflow_are_left_alone():
    fmt = FORMATS["bfloat16"]
    attention, bits, _ = outputs(np.array([[3e38, 1.0, -3e38]]), fmt)
    assert not judge(bits, encode(np.full((1, 48), np.nan), fmt), fmt, operation=attention).violations


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"head_dim": 0}, "head_dim is 0"),
        ({"value_dim": 1.5}, "value_dim is 1.5"),
        ({"causal": "left"}, "causal is 'left'"),
        ({"window": 4}, "declare causal=top-left"),
        ({"softcap": -1}, "softcap is -1"),
        ({"scale": 0}, "scale is 0"),
        ({"dim": 4}, "no parameter 'dim'"),
    ],
)
def test_parameters_that_are_not_judged_are_refused(parameters, said):
    with pytest.raises(UsageError, match=said):
        operation("attention", parameters)


def test_float64_is_not_judged():
    with pytest.raises(UsageError, match="leave float64 out"):
        operation("attention").answer(np.zeros((1, 2)), FORMATS["float64"], "nan")


def test_variants_of_one_run_are_judged_by_their_own_parameters():
    server, names = Server(torch.device("cpu")), [f"{KERNELS}:{name}" for name in ("by_heads", "with_mask")]
    scaled = f"{KERNELS}:with_logarithm@scale=0.5"
    (case,) = (case for case in cases_of("ties", "float32") if case.shape[1] == 33)
    replies = [reply for name in (names[0], scaled, names[1]) for reply in server.answer(RunCase(case, name))]
    assert [reply.result.violations for reply in replies if isinstance(reply, Measured)] == [(), (), ()]


@pytest.mark.parametrize("function", ["logarithms", "logarithms_of_base_two", "logarithms_with_a_sink"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_right_logarithms_keep_their_bound(function, dtype):
    kinds, share, call = run(function, ("ties", "padding", "special", "normal", "far-sinks"), dtype)
    assert not kinds
    assert 0 < share <= 1
    assert call.endswith("[1]") == (function != "logarithms_with_a_sink")


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("logarithms_of_another_base", "ulp_exceeds_bound"),
        ("infinite_without_keys", "inf_mismatch"),
        ("logarithms_with_a_clamped_sink", "ulp_exceeds_bound"),
    ],
)
def test_wrong_logarithms_are_found(function, kind):
    assert kind in run(function, ("ties", "special", "padding", "far-sinks"), "float32")[0]


def test_a_base_is_e_or_two():
    with pytest.raises(UsageError, match="base is 10; expected 2"):
        operation("attention_logsumexp", {"base": 10})


@pytest.mark.parametrize("name", ["attention", "attention_logsumexp", "softmax"])
def test_cases_of_heads_are_for_attention(name):
    (case,) = (case for case in cases_of("heads", "float16") if case.shape[1] == 97)
    assert (left_out(case, Declaration(operation=name)) is None) == name.startswith("attention")


TRITON = [
    *("attention_online", "attention_online_causal", "attention_online_masked", "attention_split_keys"),
    *("attention_online_biased", "attention_split_keys_logsumexp"),
]


@pytest.mark.parametrize(
    ("name", "dtype"),
    list(zip(TRITON, ["bfloat16", "float16", "float32", "bfloat16", "float32", "float16"], strict=True)),
)
def test_built_in_kernels_keep_the_bound(session, name, dtype):
    assert not isinstance(session.load(name, (dtype,)), str)
    for wanted in ("short-7", "hidden-part-48", "part-far-above-48"):
        (case,) = (case for case in cases_of("heads", dtype) if case.id == f"heads/{wanted}/{dtype}")
        (result,) = session.run_case(case, [name])
        assert result.measurement.elements
        assert not result.measurement.violations
