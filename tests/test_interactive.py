"""softcheck.check: which functions a worker can import, and the report of one."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import softcheck
from softcheck.errors import UsageError
from softcheck.interactive import spec_of

ROOT = Path(__file__).parents[1]

SCRIPT = """
import sys
import torch
import softcheck


def softmax(x, dim):
    return torch.softmax(x, dim)


def halved(x):
    return torch.softmax(x, -1) / 2


adapted = softcheck.adapt(torch.softmax, args=[-1])

if __name__ == "__main__":
    for function in (softmax, adapted):
        right = softcheck.check(function, dtype="fp16", cases=["ties/*"], device="interpreter")
        assert right.ok, right
        assert right.findings == ()
    local = lambda x: softmax(x, -1)
    assert softcheck.check(local, dtype="fp16", cases=["ties/*"], device="interpreter").ok
    wrong = softcheck.check(halved, torch.float16, cases=["ties/*"], device="interpreter")
    assert not wrong.ok
    assert {f.kind for f in wrong.findings} >= {"sum_violation"}
    assert wrong.causes
    assert "<pre>" in wrong._repr_html_() and "fail" in wrong._repr_html_()
    print(wrong)
"""


@pytest.mark.parametrize("device", ["interpreter", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_functions_of_a_script_are_judged(tmp_path, device):
    file = tmp_path / "mine.py"
    file.write_text(SCRIPT.replace('device="interpreter"', f'device="{device}"'))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "mine.py:halved" in done.stdout


def test_a_package_is_imported_by_name():
    assert spec_of(spec_of) == "softcheck.interactive:spec_of"


def test_what_can_not_be_sent_to_a_worker_is_refused_with_the_mend():
    table = torch.ones(3)
    with pytest.raises(UsageError, match="can't be sent to a worker process: table is of type Tensor"):
        softcheck.check(lambda x: x * table)
    code = "import softcheck\ndef softmax(x): return x\nsoftcheck.check(softmax)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert "%%writefile my_kernels.py" in done.stderr
    assert "check 'my_kernels.py:softmax'" in done.stderr


def test_a_check_that_runs_on_import_is_refused(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import softcheck\ndef softmax(x): return x.softmax(-1)\nresult = softcheck.check(softmax, 'fp16')\nprint(result)"
    )
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "put the call below if __name__ == '__main__'" in done.stdout
    assert "error" in done.stdout


def test_importing_softcheck_loads_neither_torch_nor_triton():
    code = "import sys, softcheck; sys.exit('torch' in sys.modules or 'triton' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
