"""The lines that call a kernel by hand run, and print the wrong output beside the exact one."""

import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from sample_reports import FAILING, INTERPRETED, finding

from oracles.formats import FORMATS, decode, encode
from softcheck.calling.call import to_bits, to_tensor
from softcheck.cases.corpus import builtin_names, load
from softcheck.contract import FindingKind, Surroundings
from softcheck.judge.judge import judge
from softcheck.report.findings import FindingSource
from softcheck.report.model import CaseResult
from softcheck.report.reproduce import bits_command
from softcheck.report.snippet import shrunk_input, snippet_of
from softcheck.variants.declaration import Declaration

ROOT = Path(__file__).resolve().parents[2]

NOTHING = {"first_column": 0, "inputs": "", "outputs": "", "exact": "", "ulps": "", "bounds": ""}

WRONG = """
import torch

def softmax(x):
    y = torch.softmax(x.double(), dim=-1)
    y[:, -1] *= 2
    return y.to(x.dtype)
"""


def wrong(x):
    y = torch.softmax(x.double(), dim=-1)
    y[:, -1] *= 2
    return y.to(x.dtype)


def findings_on(bits, fmt, variant, case, output):
    violations = judge(bits, output, fmt).violations
    return {
        v.kind: FindingSource(variant, fmt.name, Declaration(), "interpreter").finding(v, case, "softcheck")
        for v in violations
    }


def result_of(variant, dtype):
    return msgspec.structs.replace(FAILING, name=variant, dtype=dtype)


@pytest.fixture
def variant(tmp_path, monkeypatch):
    # The lines switch the interpreter on for their own process.
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)
    return f"{path}:softmax"


def printed(snippet, capsys):
    exec(snippet, {})
    return capsys.readouterr().out.split()


@pytest.mark.parametrize("dtype", list(FORMATS))
def test_a_short_row_is_written_out(dtype, variant, capsys):
    fmt = FORMATS[dtype]
    bits = encode(np.array([[0.0, 0.0, 0.0], [-0.0, -3.0, 1.5]]), fmt)
    output = to_bits(wrong(to_tensor(bits, fmt, torch.device("cpu"))), fmt)
    found = findings_on(bits, fmt, variant, "any/case", output)
    snippet = snippet_of(found[FindingKind.ULP_EXCEEDS_BOUND], result_of(variant, dtype), INTERPRETED)
    assert len(snippet.splitlines()) == 6
    got, value, expected, exact = printed(snippet, capsys)
    assert (got, expected) == ("got", "expected")
    assert float(value) == pytest.approx(2 * float(exact), rel=0.01)
    snippet = snippet_of(found[FindingKind.SUM_VIOLATION], result_of(variant, dtype), INTERPRETED)
    assert float(printed(snippet, capsys)[1]) > 1.3


def test_the_sum_of_logarithms_is_that_of_their_powers(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    path = tmp_path / "wrong.py"
    path.write_text("import torch\n\ndef f(x):\n    return torch.log_softmax(x, dim=-1) + 1\n")
    one = msgspec.structs.replace(
        finding(FindingKind.SUM_VIOLATION, "any/case", "misses 1"),
        row=0,
        around=Surroundings(row="0000 3c00", **NOTHING),
    )
    result = msgspec.structs.replace(result_of(f"{path}:f", "float16"), operation="log_softmax")
    assert float(printed(snippet_of(one, result, INTERPRETED), capsys)[1]) == pytest.approx(np.e, rel=1e-2)


def test_one_answer_for_a_row_is_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    path = tmp_path / "wrong.py"
    path.write_text("import torch\n\ndef f(x):\n    return torch.logsumexp(x, dim=-1) + 1\n")
    around = Surroundings(row="0000 0000", **{**NOTHING, "outputs": "3ec6", "exact": "0.693147181"})
    one = msgspec.structs.replace(
        finding(FindingKind.ULP_EXCEEDS_BOUND, "any/case", "wrong"), row=3, column=0, around=around
    )
    result = msgspec.structs.replace(result_of(f"{path}:f", "float16"), operation="logsumexp")
    got, value, _, exact = printed(snippet_of(one, result, INTERPRETED), capsys)
    assert (got, exact) == ("got", "0.693147181")
    assert float(value) == pytest.approx(1.693, rel=1e-2)


def test_a_shrunk_input_goes_first(variant, capsys):
    one = finding(FindingKind.ULP_EXCEEDS_BOUND, "generated/1/float16", "wrong")
    one = msgspec.structs.replace(one, reproduce=bits_command(variant, "float16", "0000; 3c00"))
    assert shrunk_input(one) == "0000; 3c00"
    assert printed(snippet_of(one, result_of(variant, "float16"), INTERPRETED), capsys)[:2] == [
        "tensor([[2.],",
        "[2.]],",
    ]


def test_a_wide_row_of_a_saved_case_is_read_from_the_corpora(variant, capsys):
    case = next(c for c in load(builtin_names()) if c.dtype == "float32" and 100 < c.shape[1] < 2000 and c.recipe)
    bits = case.bits(2)
    output = to_bits(wrong(to_tensor(bits, case.format, torch.device("cpu"))), case.format)
    found = findings_on(bits, case.format, variant, case.id, output)[FindingKind.ULP_EXCEEDS_BOUND]
    run = CaseResult(id=case.id, family=case.family, shape=case.shape, rows_run=2)
    report = msgspec.structs.replace(INTERPRETED, cases=(run,))
    got, value, _, exact = printed(snippet_of(found, result_of(variant, "float32"), report), capsys)
    assert (got, float(value)) == ("got", float(decode(output, case.format)[found.row, found.column]))
    assert float(value) == pytest.approx(2 * float(exact), rel=1e-5)
    assert snippet_of(found, result_of(variant, "float32"), INTERPRETED) is None


def test_what_no_output_shows_has_no_lines():
    written = finding(FindingKind.OUT_OF_BOUNDS_WRITE, "normal/1-columns/float16", "wrote beyond the end")
    assert snippet_of(written, FAILING, INTERPRETED) is None


def test_a_triton_kernel_is_interpreted():
    bits = encode(np.array([[-2.0, -1.0, -3.0]]), FORMATS["float32"])
    # The example loads one lane beyond the row as 0.
    exact = np.exp([-2.0, -1.0, -3.0, 0.0])
    output = encode((exact / exact.sum())[None, :3], FORMATS["float32"])
    variant = "examples/padded_with_zero.py:softmax"
    found = findings_on(bits, FORMATS["float32"], variant, "any/case", output)[FindingKind.ULP_EXCEEDS_BOUND]
    snippet = snippet_of(found, result_of(variant, "float32"), INTERPRETED)
    done = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    _, value, _, expected = done.stdout.split()
    assert found.column is not None
    assert float(value) == pytest.approx(exact[found.column] / exact.sum(), rel=1e-5)
    assert float(expected) == pytest.approx(exact[found.column] / exact[:3].sum(), rel=1e-5)
