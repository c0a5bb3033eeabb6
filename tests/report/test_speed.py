"""The speed model: ratios, traffic, means; its texts and its JSON; no figure where none was measured."""

import msgspec
import pytest
from sample_speed import SWEEP, around, samples, speed_report

from softcheck.errors import UsageError
from softcheck.operations.registry import operation
from softcheck.report.json_format import load, load_any, render
from softcheck.report.speed import gb_per_s, render_markdown, render_table, shape_speed, shape_title
from softcheck.variants.declaration import Declaration


def figures(report, shape=0):
    return {f.variant: f for f in report.shapes[shape].variants}


def test_ratios_words_and_traffic():
    found = figures(SWEEP)
    fused = found["one_block"]
    assert fused.gb_per_s == pytest.approx(3200, rel=0.01)
    assert fused.copy_share.mid == pytest.approx(0.8, rel=0.01)
    assert fused.times_faster.mid == pytest.approx(1.6, rel=0.01)
    assert (fused.word, found["eager"].word, found["torch"].word) == ("FAST", "SLOW", None)
    assert fused.traffic_gb_per_s == pytest.approx(fused.gb_per_s)
    assert fused.roofline_share == pytest.approx(0.8, rel=0.01)
    # 8MN + 4M elements against 2MN, in five times the copy's time.
    assert found["eager"].roofline_share == pytest.approx((8 * 256 + 4) / (2 * 256) / 5, rel=0.01)
    assert found["torch"].roofline_share is None


def test_reference_may_be_any_variant_that_was_measured():
    report = speed_report(samples(), reference="eager")
    assert figures(report)["one_block"].times_faster.mid == pytest.approx(4, rel=0.01)
    assert figures(report)["eager"].word is None


def test_reference_without_figures_compares_nothing():
    found = figures(speed_report(samples(), reference="wrong|`one`"))
    assert all(f.times_faster is None and f.word is None for f in found.values())


def test_torch_is_the_reference_even_where_it_is_no_variant():
    only = samples()
    only = msgspec.structs.replace(only, variants=only.variants[1:])
    assert figures(speed_report(only))["one_block"].times_faster.mid == pytest.approx(1.6, rel=0.01)


def test_what_was_too_short_to_time_is_ambiguous():
    short = samples()
    variants = [msgspec.structs.replace(v, too_short=v.name == "one_block") for v in short.variants]
    report = speed_report(msgspec.structs.replace(short, variants=tuple(variants)))
    assert figures(report)["one_block"].word == "AMBIGUOUS"


def test_few_rounds_are_ambiguous():
    few = msgspec.structs.replace(
        samples(),
        variants=(samples().variants[1].__class__(name="v", seconds=around(1e-6)[:5]),),
        copy=samples().copy.__class__(name="c", seconds=around(1e-6)[:5]),
        torch=samples().torch.__class__(name="t", seconds=around(3e-6)[:5]),
    )
    assert shape_speed(few, {}).variants[0].word == "AMBIGUOUS"


def test_means_say_how_many_shapes_they_leave_out():
    by_name = {m.variant: m for m in SWEEP.means}
    assert by_name["one_block"].times_faster.mid == pytest.approx(1.6, rel=0.01)
    assert (by_name["one_block"].shapes, by_name["one_block"].left_out) == (3, 0)
    assert (by_name["wrong|`one`"].shapes, by_name["wrong|`one`"].left_out) == (0, 3)
    assert by_name["wrong|`one`"].times_faster is None


def test_json_is_read_back_and_is_no_report(tmp_path):
    path = tmp_path / "speed.json"
    path.write_text(render(SWEEP), encoding="utf-8")
    assert load_any(path) == SWEEP
    with pytest.raises(UsageError):
        load(path)


def test_table_holds_every_shape_the_means_last_and_every_doubt():
    text = render_table(SWEEP)
    assert text.count("device copy 4000 GB/s") == 3
    assert text.index("geometric mean") > text.index("4096\N{MULTIPLICATION SIGN}4096")
    assert "throttled: the device was throttled in 50%" in text
    assert "wrong|`one`: no figure: the output of a timed call is wrong" in text
    assert "no CUDA graph could be made of it" in text
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_markdown_tables_are_whole():
    lines = render_markdown(SWEEP).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    cells = {len(line.replace("\\|", "").split("|")) for line in rows}
    assert len(cells) == 2, "one width for the shapes' tables, one for the means'"


@pytest.mark.parametrize(
    ("name", "operands", "moved"),
    [
        ("softmax", (), 2 * 10 * 8 * 2),
        ("softmax", ("mask",), 2 * 10 * 8 * 2 + 10 * 8),
        ("softmax", ("bias",), 3 * 10 * 8 * 2),
        ("cross_entropy", ("target",), 10 * 8 * 2 + 10 * 8 + 10 * 2),
        ("softmax_backward", ("grad", "y"), 3 * 10 * 8 * 2),
        ("logsumexp", (), 10 * 8 * 2 + 10 * 2),
    ],
)
def test_bytes_of_every_operand_count_once(name, operands, moved):
    of_shape = msgspec.structs.replace(samples(rows=10, columns=8), operands=operands)
    assert gb_per_s(of_shape, 1e-9, operation(name)) == pytest.approx(moved)


def test_the_title_names_operation_and_operands():
    with_targets = msgspec.structs.replace(samples(), operands=("target",))
    shape = shape_speed(with_targets, {"torch": Declaration(operation="cross_entropy")})
    assert shape_title(shape).startswith(
        "float16 4096\N{MULTIPLICATION SIGN}1024 cross_entropy with target: device copy"
    )


def test_attention_shows_its_operations_and_torchs_quickest_backend_in_place_of_the_copy():
    parameters = {"head_dim": 128, "causal": "top-left"}
    measured = msgspec.structs.replace(samples(rows=64, columns=4096), operands=("k_blhd", "q_blhd", "v_blhd"))
    by_torch = msgspec.structs.replace(measured.torch, notes=("by cudnn_attention",))
    declared = Declaration(operation="attention", parameters=parameters)
    shape = shape_speed(msgspec.structs.replace(measured, torch=by_torch), {"one_block": declared})
    report = msgspec.structs.replace(speed_report(), shapes=(shape,))
    seconds = next(f.seconds.mid for f in shape.variants if f.variant == "one_block")
    figures = next(f for f in shape.variants if f.variant == "one_block")
    assert figures.tflop_per_s == pytest.approx(2 * 64 * 4096**2 * 128 / seconds / 1e12)
    assert figures.gb_per_s == pytest.approx(4 * 64 * 4096 * 128 * 2 / seconds / 1e9)
    assert shape.copy_gb_per_s == pytest.approx(2 * 3 * 64 * 4096 * 128 * 2 / shape.copy_seconds.mid / 1e9)
    text = render_table(report)
    assert "torch by cudnn_attention" in text
    assert "Tflop/s" in text.split()
    assert "of copy" not in text
