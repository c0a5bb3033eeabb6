"""The canonical JSON: it holds what the model holds, reads back strictly, and has the documented fields."""

import json
import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_reports import ENVIRONMENT, GENERATED, INTERPRETED, MEASURED, PASSING, finding

from softcheck.contract import FindingKind
from softcheck.errors import UsageError
from softcheck.report import json_format

DOCUMENTED = {
    "environment": {"backend", "device", "torch", "triton", "python", "seed", "git_commit"},
    "variants": {
        *("name", "dtype", "verdict", "max_ulp", "mean_ulp", "p999_ulp", "ulp_is", "witness", "flushed"),
        *(
            "max_sum_deviation",
            "sum_violations",
            "special_mismatches",
            "findings",
            "gb_per_s",
            "speed_vs_torch",
            "seconds",
        ),
    },
    "witness": {"case", "row", "column", "input_bits", "output_bits", "exact"},
    "findings": {"kind", "case", "message", "reproduce"},
    "cases": {"id", "family", "shape"},
}
"""Fields that readers of schema version 1 rely on: they may be joined by others, never renamed or left out."""

TEXT = json_format.render(INTERPRETED)


def changed(change):
    """The sample report's JSON with a change made to its object."""
    report = json.loads(TEXT)
    change(report)
    return json.dumps(report)


def test_documented_fields_are_there():
    report = json.loads(TEXT)
    result = report["variants"][1]
    assert report["schema_version"] == 1
    assert set(report["environment"]) >= DOCUMENTED["environment"]
    assert set(result) >= DOCUMENTED["variants"]
    assert set(result["witness"]) == DOCUMENTED["witness"]
    assert set(result["findings"][0]) >= DOCUMENTED["findings"]
    assert set(report["cases"][0]) >= DOCUMENTED["cases"]


def test_what_was_not_measured_is_null():
    unsupported = json.loads(TEXT)["variants"][3]
    figures = DOCUMENTED["variants"] - {"name", "dtype", "verdict", "ulp_is", "findings", "seconds"}
    assert {name: unsupported[name] for name in figures} == dict.fromkeys(figures)


def test_it_is_standard_json_with_one_newline_at_the_end():
    def refuse(constant):
        raise AssertionError(constant)

    infinite = msgspec.structs.replace(INTERPRETED, seconds=math.inf)
    assert json.loads(json_format.render(infinite), parse_constant=refuse)["seconds"] == "inf"
    assert TEXT.endswith("}\n")
    assert not TEXT.endswith("\n\n")


def test_the_definition_of_a_generated_case_is_kept():
    assert json.loads(TEXT)["cases"][-1]["definition"]["rows"] == ["7c00"]
    assert json_format.parse(TEXT).cases[-1].definition == GENERATED.definition


@pytest.mark.parametrize("report", [INTERPRETED, MEASURED])
def test_reads_back_equal(report, tmp_path):
    path = tmp_path / "report.json"
    path.write_text(json_format.render(report), encoding="utf-8")
    assert json_format.load(path) == report
    assert json_format.load(str(path)) == report


figures = st.none() | st.floats()
printable = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
results = st.builds(
    lambda **fields: msgspec.structs.replace(PASSING, **fields),
    name=printable,
    verdict=st.sampled_from(["pass", "fail", "known", "unsupported", "error"]),
    reason=st.none() | printable,
    max_ulp=figures,
    mean_ulp=figures,
    max_bound_share=figures,
    max_sum_deviation=figures,
    gb_per_s=figures,
    flushed=st.none() | st.integers(0, 2**63),
    seconds=st.floats(),
    findings=st.lists(
        st.builds(finding, st.sampled_from(FindingKind), printable, printable, known=st.none() | printable), max_size=3
    ).map(tuple),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(results, max_size=3), st.floats())
def test_any_report_reads_back_bit_for_bit(variants, seconds):
    report = msgspec.structs.replace(MEASURED, variants=tuple(variants), seconds=seconds)
    text = json_format.render(report)
    again = json_format.parse(text)
    # NaN differs from itself, so equality is judged on what is printed; repr tells -0.0, NaN and infinities apart.
    assert repr(again) == repr(report)
    assert json_format.render(again) == text


def test_a_file_name_that_is_not_utf8_is_written_as_an_escape():
    environment = msgspec.structs.replace(ENVIRONMENT, command="softcheck report --variant \udcff.py:f")
    text = json_format.render(msgspec.structs.replace(INTERPRETED, environment=environment))
    assert json_format.parse(text).environment.command == "softcheck report --variant \\udcff.py:f"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "truncated"),
        (TEXT[: len(TEXT) // 2], "truncated"),
        ("[" * 100_000, "nested too deeply"),
        (b"\xff\xfe", "malformed"),
        (TEXT.encode().replace(b"one_block", b"one\xffblock"), "utf-8"),
        ("NaN", "malformed"),
        ("[1, 2]", "holds \\[1,2\\]; expected an object"),
        ("{}", "schema_version is null, this softcheck reads 1; make the report again"),
        (changed(lambda r: r.update(schema_version=2)), "schema_version is 2, this softcheck reads 1"),
        (changed(lambda r: r.update(schema_version=True)), "schema_version is true"),
        (changed(lambda r: r.pop("variants")), "missing required field `variants`"),
        (changed(lambda r: r["variants"][2].pop("dtype")), r"missing required field `dtype`.*variants\[2\]"),
        (changed(lambda r: r["variants"][0].update(max_ulps=1)), r'unknown field "max_ulps" at \$\.variants\[0\]'),
        (changed(lambda r: r["variants"][1].update(verdict="fine")), "Invalid enum value 'fine'.*verdict"),
        (changed(lambda r: r["variants"][1].update(flushed=0.5)), "flushed"),
        (changed(lambda r: r["variants"][1].update(flushed="12")), r'variants\[1\]\.flushed holds "12", expected 12'),
        (changed(lambda r: r["variants"][1].update(cases_run=True)), "cases_run"),
        (changed(lambda r: r["variants"][1].update(max_ulp="Infinity")), 'max_ulp holds "Infinity", expected "inf"'),
        (changed(lambda r: r["variants"][1].update(name=7)), "Expected `str`"),
        (changed(lambda r: r["variants"][1].update(max_ulp="null")), 'max_ulp holds "null", expected null'),
        (changed(lambda r: r["cases"][0].update(shape=[1, 2, 3])), "shape"),
        (changed(lambda r: r["variants"][1]["findings"][0].update(kind="bad_luck")), "Invalid enum value 'bad_luck'"),
    ],
)
def test_a_broken_or_hostile_file_is_refused_with_the_place(text, message):
    with pytest.raises(UsageError, match=f"(?i)^result.json: .*{message}"):
        json_format.parse(text, source="result.json")


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"absent\.json.*can't be read"):
        json_format.load(tmp_path / "absent.json")
    with pytest.raises(UsageError, match="can't be read"):
        json_format.load(tmp_path)
    with pytest.raises(UsageError, match="can't be read"):
        json_format.load("nul\0byte")
