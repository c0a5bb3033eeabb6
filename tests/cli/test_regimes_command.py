"""``softcheck regimes``: the regimes of a variant, and an exit code that says whether a promise is broken in one."""

from pathlib import Path

from command import softcheck

BUGS = Path(__file__).parents[1] / "planted" / "bugs"
BUG = BUGS / "tall_narrow_remainder_lost.py"


def test_a_path_for_some_shapes_is_named_and_its_finding_laid_at_it():
    done = softcheck("regimes", f"{BUG}:softmax", "--quick", "--device", "interpreter")
    assert done.returncode == 1, done.stderr
    heading, *lines = done.stdout.splitlines()
    assert heading.endswith("float32: 3 regimes")
    at = lines.index("  columns <= 64 and rows > 32 with rows % 4 != 0")
    assert lines[at + 1] == "    launches rows_kernel(BLOCK=next power of 2 of columns, ROWS=4, grid=rows // ROWS)"
    assert (
        "  unwritten_output: in the regime columns <= 64 and rows > 32 with rows % 4 != 0 [rows_kernel(" in done.stdout
    )
    assert "lines of its own code" in done.stdout


def test_lines_of_a_kernel_that_large_calls_alone_launch_were_run():
    """Before Python 3.12 lines are counted in small calls alone."""
    wide = BUGS / "many_rows_of_some_width.py"
    done = softcheck("regimes", f"{wide}:softmax", "--quick", "--device", "interpreter")
    assert "rows >= 64 and columns > 256" in done.stdout
    assert " rows, " in done.stdout
    assert "never run" not in done.stdout


def test_nothing_to_run_exits_3(tmp_path):
    only = tmp_path / "only.py"
    only.write_text(
        "import torch\nfrom softcheck import variant\n\n"
        "@variant(dtypes=['float16'])\ndef softmax(x):\n    return torch.softmax(x, dim=-1)\n",
        encoding="utf-8",
    )
    done = softcheck("regimes", f"{only}:softmax", "--dtype", "float32", "--device", "interpreter")
    assert done.returncode == 3
    assert "declares float16, not float32" in done.stderr
