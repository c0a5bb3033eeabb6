"""``softcheck trace``: which row it takes, what it prints and writes, and how it ends."""

import json
import shlex

import pytest
from command import softcheck
from test_report_command import KERNELS

TRACED = KERNELS / "traced.py"


def traced(*arguments, **more):
    return softcheck("trace", *arguments, **more)


def test_a_table_shows_the_step_in_which_an_error_is_born():
    done = traced(f"{TRACED}:padded_with_zero", "--values", "1, 2, -5")
    assert done.returncode == 0, done.stderr
    assert "row 0, 3 columns, blocks of 4 lanes: ordinary" in done.stdout
    assert "1 masked lane loads 0" in done.stdout
    assert "largest error of its own: step 5, block sum, 1.135e+06 ULP, at one_block:13: total = tl.sum(" in done.stdout
    assert "sum of probabilities: 0.910" in done.stdout


def test_json_is_read_again_and_drawn_alike(tmp_path):
    file = tmp_path / "trace.json"
    words = [f"{TRACED}:right_online", "--values", "1 2 3 4; 5 6 -inf 8", "--row", "1", "--width", "3", "--width", "4"]
    done = traced(*words, "--dtype", "fp16", "--format", "json", "--output", file)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    assert (found["kind"], found["dtype"], found["operation"]) == ("trace", "float16", "softmax")
    assert [(row["row"], row["columns"], row["status"]) for row in found["rows"]] == [
        (1, 3, "partly masked"),
        (1, 4, "partly masked"),
    ]
    assert found["rows"][0]["steps"][0]["masked_value"] == "-inf"
    again = softcheck("render", file)
    assert again.stdout == traced(*words, "--dtype", "fp16").stdout
    assert softcheck(*shlex.split(found["command"])[1:]).returncode == 0
    assert json.loads(file.read_text()) == found


def test_a_saved_case_is_traced_in_float32_if_no_dtype_is_named():
    done = traced("online", "--case", "padding/leading-1-of-3/*", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["case"] == "padding/leading-1-of-3/float32"


def test_a_column_in_focus_is_shown():
    numbers = " ".join(map(str, range(100)))
    done = traced("one_block", "--values", numbers, "--column", "50", "--format", "json")
    (row,) = json.loads(done.stdout)["rows"]
    assert 50 in [lane["column"] for lane in row["steps"][0]["shown"]]
    assert len(row["steps"][0]["shown"]) <= 16


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["torch", "--values", "1 2"], 3, "launches no Triton kernel"),
        (
            [f"{KERNELS / 'uninterpretable.py'}:inline_assembly", "--values", "1 2"],
            3,
            "can't run this: inline assembly",
        ),
        (["one_block"], 2, "exactly one of --case, --values and --bits"),
        (["one_block", "online", "--values", "1"], 2, "2 variants are named; expected one"),
        (["one_block", "--values", "1 two"], 2, "'two'; expected numbers such as"),
        (["one_block", "--values", "1 2; 3"], 2, "row 1 holds 1 numbers, expected 2"),
        (["one_block", "--values", "1 2", "--row", "1"], 2, "there is no row 1"),
        (["one_block", "--values", "1 2", "--width", "3"], 2, "can't be cut to 3"),
        (["one_block", "--case", "widths/*"], 2, "name one, and its --dtype"),
        (["one_block", "--bits", "3c00"], 2, "--bits needs --dtype"),
        (["one_block", "--values", "1 2", "--format", "csv"], 2, "'csv' is not one of"),
    ],
)
def test_what_can_not_be_traced_is_told(arguments, code, said):
    done = traced(*arguments)
    assert done.returncode == code
    assert said in done.stderr
    assert done.stdout == ""


def test_a_trace_is_no_report(tmp_path):
    file = tmp_path / "trace.json"
    assert traced("one_block", "--values", "1 2", "--format", "json", "--output", file).returncode == 0
    done = softcheck("compare", file, file)
    assert done.returncode == 2
    assert "holds a trace, expected a report" in done.stderr


FEW = ["--family", "padding", "--dtype", "fp16", "--device", "interpreter"]


def test_a_report_traces_the_worst_row_of_each_variant_on_request(tmp_path):
    file = tmp_path / "report.json"
    words = ["report", f"{TRACED}:padded_with_zero", f"{TRACED}:right", "torch", *FEW]
    assert softcheck(*words, "--trace", "--format", "json", "--output", file).returncode == 1
    report = json.loads(file.read_text())
    wrong, right = report["traces"]
    assert (wrong["variant"], right["variant"]) == tuple(f"{TRACED}:{name}" for name in ("padded_with_zero", "right"))
    (row,) = wrong["rows"]
    witness = next(one for one in report["variants"] if one["name"] == wrong["variant"])["witness"]
    assert (wrong["case"], row["row"]) == (witness["case"], witness["row"])
    assert row["steps"][row["born"]]["phase"] in {"block_maximum", "block_sum"}
    assert witness["column"] in [lane["column"] for lane in row["steps"][-1]["shown"]]
    assert max(step["own"] for step in right["rows"][0]["steps"]) <= 0.5
    assert any("launch no Triton kernel: torch" in note for note in report["notes"])
    assert softcheck(*shlex.split(wrong["command"])[1:]).returncode == 0


def test_a_page_of_a_report_has_the_row_and_other_formats_record_none():
    page = softcheck("report", f"{TRACED}:right", *FEW, "--format", "html").stdout
    assert 'id="microscope-data"' in page
    assert (
        'id="microscope-data"'
        not in softcheck("report", f"{TRACED}:right", *FEW, "--format", "html", "--no-trace").stdout
    )
    assert json.loads(softcheck("report", f"{TRACED}:right", *FEW, "--format", "json").stdout)["traces"] == []
