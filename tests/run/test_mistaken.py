"""Functions that give right answers of another operation than the one that they are judged by."""

import pytest
import torch
from click.testing import CliRunner

from softcheck.cli.main import cli
from softcheck.contract import FindingKind
from softcheck.report.causes import causes_of
from softcheck.report.model import Finding
from softcheck.run.mistaken import other_operation
from softcheck.variants.registry import load

KERNELS = """
import torch

def logarithms(x):
    return torch.log_softmax(x, -1)

def binary_logarithms(x):
    return (torch.log_softmax(x.double(), -1) / 0.6931471805599453).to(x.dtype)

def probabilities(x):
    return torch.softmax(x, -1)

def sums(x):
    return torch.logsumexp(x, -1)

def too_large(x):
    return torch.softmax(x, -1) * 1.01

def right_but_for_one(x):
    found = torch.log_softmax(x, -1)
    found[0, 0] = 0
    return found

def of_logarithms(grad, y):
    of_row = y.float().exp() * grad.float().sum(-1, keepdim=True)
    return (grad - of_row).to(grad.dtype)
"""


@pytest.fixture
def kernels(tmp_path):
    path = tmp_path / "kernels_of_any.py"
    path.write_text(KERNELS)
    return path


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("logarithms", "--operation log_softmax"),
        ("binary_logarithms", "--operation log_softmax --declare base=2"),
        ("sums", "--operation logsumexp"),
        ("probabilities@operation=log_softmax", "--operation softmax"),
        ("of_logarithms@operation=softmax_backward", "--operation log_softmax_backward"),
        ("probabilities", ""),
        ("too_large", ""),
        ("right_but_for_one", ""),
        # A logarithm of the wrong base is a fault, and no other operation.
        ("binary_logarithms@operation=log_softmax", ""),
        ("logarithms@operation=log_softmax", ""),
        ("of_logarithms@operation=log_softmax_backward", ""),
    ],
)
def test_another_operation_is_named_where_all_answers_are_its_own(kernels, name, options, dtype):
    variant = load(f"{kernels}:{name}")
    x = torch.zeros((2, 8), dtype=dtype)
    assert other_operation(variant, x, variant.function(x.clone())) == options


def test_a_report_leads_with_the_other_operation(kernels):
    arguments = ["--dtype", "float32", "--family", "ties", "--probe", "layouts", "--device", "interpreter"]
    done = CliRunner().invoke(cli, ["report", f"{kernels}:logarithms", *arguments])
    assert "add --operation log_softmax if that is what it is to compute" in done.output
    wrong = CliRunner().invoke(cli, ["report", f"{kernels}:too_large", *arguments])
    assert (wrong.exit_code, "another operation" in wrong.output) == (1, False)
    refused = CliRunner().invoke(cli, ["report", f"{kernels}:sums", *arguments])
    assert "its answers are those of another operation: add --operation logsumexp" in refused.output


def test_faults_of_memory_keep_their_own_cause():
    kinds = (FindingKind.OUT_OF_BOUNDS_WRITE, FindingKind.OUT_OF_BOUNDS_WRITE, FindingKind.ULP_EXCEEDS_BOUND)
    found = [
        Finding(id=str(number), kind=kind, case=f"case/{number}", message="", reproduce=())
        for number, kind in enumerate(kinds)
    ]
    first, second = causes_of(found, [], computing="--operation log_softmax")
    # Damaged memory may be behind anything else.
    assert first.findings == ("0", "1")
    assert second.findings == ("2",)
