"""The README's example kernels do what it says of them."""

import json
from pathlib import Path

from command import softcheck

EXAMPLES = Path(__file__).parents[2] / "examples"
PADDING = ["--device", "interpreter", "--dtype", "float16", "--family", "widths", "--format", "json"]


def report(name, *more):
    done = softcheck("report", "--variant", f"{EXAMPLES / name}:softmax", *PADDING, *more)
    return done.returncode, json.loads(done.stdout)["variants"][0]


def test_zero_padding_is_found():
    code, row = report("padded_with_zero.py")
    assert code == 1
    assert {"ulp_exceeds_bound", "sum_violation"} <= {f["kind"] for f in row["findings"]}


def test_mended_kernel_passes():
    code, row = report("declared.py", "--family", "layout", "--family", "padding")
    assert (code, row["verdict"]) == (0, "pass")


def test_saved_report_is_drawn_anew_in_another_format(tmp_path):
    saved = tmp_path / "report.json"
    softcheck("report", "--variant", "torch", *PADDING, "--output", str(saved))
    drawn = softcheck("render", str(saved), "--format", "markdown")
    assert drawn.returncode == 0
    assert "| torch |" in drawn.stdout.replace("`", "")
    broken = tmp_path / "broken.json"
    broken.write_text(saved.read_text()[:-50])
    assert softcheck("render", str(broken)).returncode == 2
