"""What a function computes and how it is called, found once by trials before a run."""

import itertools

import pytest
import torch
from click.testing import CliRunner
from command import softcheck

from softcheck.cli.main import cli
from softcheck.contract import FindingKind
from softcheck.report.causes import causes_of
from softcheck.report.model import Finding
from softcheck.run.protocol import Load, Loaded, RunCase
from softcheck.run.serving import Server
from softcheck.variants.registry import imported, load

KERNELS = """
import softcheck
import torch

INF = float("inf")
LOG2E = 1.4426950408889634
over_rows = torch.nn.Softmax(dim=0)
LogSoftmax = torch.nn.LogSoftmax(dim=0)

def logarithms(x):
    return torch.log_softmax(x, -1)

def binary_logarithms(x):
    return (torch.log_softmax(x.double(), -1) * LOG2E).to(x.dtype)

def probabilities(x):
    return torch.softmax(x, -1)

def sums(x):
    return torch.logsumexp(x, -1)

def sums_over_rows(x):
    return torch.logsumexp(x, 0)

def over_channels(x):
    _, _, _ = x.shape
    return torch.log_softmax(x, 1)

def too_large(x):
    return torch.softmax(x, -1) * 1.1

def too_large_over_rows(x):
    return torch.softmax(x, 0) * 1.1

def right_but_for_one(x):
    found = torch.log_softmax(x, -1)
    found[0, 0] = 0
    return found

@softcheck.variant(dtypes=["float32"])
def promises_no_operation(x):
    return torch.log_softmax(x, -1)

@softcheck.variant(operation="softmax")
def promises_softmax(x):
    return torch.log_softmax(x, -1)

def log_softmax_of_half(x):
    return torch.log_softmax(x, -1) / 2

def of_logarithms(grad, y):
    of_row = y.float().exp() * grad.float().sum(-1, keepdim=True)
    return (grad - of_row).to(grad.dtype)

def of_few_elements(x):
    if x.numel() > 300:
        raise ValueError("too many")
    return torch.softmax(x, -1)

def selected(logits, index):
    return torch.log_softmax(logits.float(), -1).gather(1, index[:, None])[:, 0]

def half_selected(logits, index):
    return selected(logits, index) / 2

def mean_loss(logits, targets):
    return torch.nn.functional.cross_entropy(logits.float(), targets)

def all_losses(logits, targets):
    return torch.nn.functional.cross_entropy(logits.float(), targets, reduction="sum")

def _attended(q, k, v, keep=None):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=keep)

def _seen(q, k, shift):
    return torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(shift)

def attended(q, k, v):
    return _attended(q, k, v)

def first_aligned(q, k, v):
    return _attended(q, k, v, _seen(q, k, 0))

def last_aligned(q, k, v):
    return _attended(q, k, v, _seen(q, k, k.shape[-2] - q.shape[-2]))

@softcheck.variant(operation="attention")
def hides_what_nobody_declares(q, k, v):
    return first_aligned(q, k, v)

@softcheck.variant(operation="cross_entropy")
def forgets_its_sign(logits, target):
    return selected(logits, target)

def misaligned(q, k, v):
    return _attended(q, k, v, _seen(q, k, 1))

def causal_rows(x):
    hidden = ~torch.ones(x.shape[-2:], dtype=torch.bool).tril()
    return torch.softmax(x.masked_fill(hidden, -INF), -1)

def wide_statistics(x):
    y = torch.softmax(x, -1)
    return torch.stack([y.amax(-1), y.sum(-1)], -1), y

def aten_backward(grad_output, output, dim, input_dtype):
    g, y = grad_output.float(), output.float()
    return (y * (g - (y * g).sum(dim, keepdim=True))).to(dtype=input_dtype)

def aten_backward_of_half(grad_output, output, dim, input_dtype):
    return (aten_backward(grad_output, output, dim, input_dtype) / 2).to(dtype=input_dtype)
"""

X = torch.randn((6, 9), generator=torch.Generator().manual_seed(1))
TELL_NOTHING = {
    "NaN": torch.full((3, 3), float("nan")),
    "zeros": torch.zeros((3, 3)),
    "infinite": torch.full((2, 2), float("inf")),
    "hidden": torch.full((4, 4), -float("inf")),
    "one": torch.zeros((1, 1)),
    "empty": torch.zeros((0, 5)),
    "ordinary": X,
    "two columns": X[:, :2],
}
"""Inputs on which several calls give the same answer, and others."""


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")


@pytest.fixture
def kernels(tmp_path):
    path = tmp_path / "kernels_of_any.py"
    path.write_text(KERNELS)
    return path


def found(kernels, name, dtype="float32"):
    trials = imported(f"{kernels}:{name}").recognition(torch.device("cpu"), [dtype])
    return trials.begin() or trials.found()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(
    ("name", "operation", "parameters", "call"),
    [
        ("probabilities", "softmax", {}, "f(x)"),
        ("over_rows", "softmax", {}, "f(x.mT).mT"),
        ("logarithms", "log_softmax", {}, "f(x)"),
        ("LogSoftmax", "log_softmax", {}, "f(x.mT).mT"),
        ("over_channels", "log_softmax", {}, "f(x3.movedim(-1, 1)).movedim(1, -1)"),
        ("binary_logarithms", "log_softmax", {"base": 2.0}, "f(x)"),
        ("sums", "logsumexp", {}, "f(x)"),
        ("sums_over_rows", "logsumexp", {}, "f(x.mT)"),
        ("causal_rows", "softmax", {"causal": "top-left"}, "f(x)"),
        ("selected", "cross_entropy", {}, "f(x, target).neg()"),
        ("selected@operation=cross_entropy", "cross_entropy", {}, "f(x, target).neg()"),
        ("mean_loss", "cross_entropy", {"reduction": "mean"}, "f(x, target)"),
        ("all_losses@operation=cross_entropy", "cross_entropy", {"reduction": "sum"}, "f(x, target)"),
        ("attended", "attention", {}, "f(q, k, v)"),
        ("first_aligned", "attention", {"causal": "top-left"}, "f(q, k, v)"),
        ("last_aligned@operation=attention", "attention", {"causal": "bottom-right"}, "f(q, k, v)"),
        ("of_logarithms", "log_softmax_backward", {}, "f(grad, y)"),
        ("aten_backward@operation=softmax_backward", "softmax_backward", {}, "f(grad, y, -1, grad.dtype)"),
        ("log_softmax_of_half", "log_softmax", {}, "f(x)"),
        ("wide_statistics", "softmax", {}, "f(x)[1]"),
        ("promises_no_operation", "log_softmax", {}, "f(x)"),
        ("of_few_elements", "softmax", {}, "f(x)"),
    ],
)
def test_operation_dimension_alignment_base_and_sign_are_recognised(kernels, name, operation, parameters, call, dtype):
    fact = found(kernels, name, dtype)
    assert (fact.operation, fact.parameters, fact.text, fact.computes) == (operation, parameters, call, "")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("logarithms@operation=softmax", "--operation log_softmax"),
        ("LogSoftmax@operation=softmax", "--operation log_softmax"),
        ("binary_logarithms@operation=softmax", "--operation log_softmax --declare base=2"),
        ("sums@operation=softmax", "--operation logsumexp"),
        ("probabilities@operation=log_softmax", "--operation softmax"),
        ("of_logarithms@operation=softmax_backward", "--operation log_softmax_backward"),
        # A logarithm of the wrong base, or another alignment than the declared one, is a fault.
        ("binary_logarithms@operation=log_softmax", "--declare base=2"),
        ("too_large@operation=softmax", ""),
        ("too_large", ""),
        ("too_large_over_rows", ""),
        ("right_but_for_one@operation=softmax", ""),
        ("log_softmax_of_half@operation=softmax", ""),
        ("promises_softmax", "--operation log_softmax"),
        ("hides_what_nobody_declares", "--declare causal=top-left"),
        ("forgets_its_sign", ""),
        ("logarithms@operation=log_softmax", ""),
        ("misaligned@operation=attention", ""),
    ],
)
def test_what_somebody_says_is_judged_and_what_all_answers_are_instead_is_named(kernels, name, options):
    fact = found(kernels, name)
    asked = name.partition("operation=")[2] or imported(f"{kernels}:{name}").declaration.operation
    assert (fact.operation, fact.parameters, fact.taken, fact.computes) == (asked, {}, "", options)


@pytest.mark.parametrize(
    "name", ["half_selected@operation=cross_entropy", "aten_backward_of_half@operation=softmax_backward"]
)
def test_no_call_makes_a_wrong_function_right(kernels, name):
    variant = load(f"{kernels}:{name}")
    x = X * 3
    exact = variant.operation.yardstick(x.double())
    assert (variant.function(x).double() - exact).abs().max() > 0.01


NAMES = [
    "over_rows",
    "LogSoftmax",
    "probabilities",
    "sums_over_rows",
    "wide_statistics",
    "causal_rows",
    "too_large_over_rows",
]


@pytest.mark.parametrize("name", NAMES)
def test_no_input_decides_which_call_a_process_makes(kernels, name):
    """A worker that is told judges as one that has made the trials, in whatever order inputs come."""
    first = load(f"{kernels}:{name}")
    due = {label: first.function(x.clone()) for label, x in TELL_NOTHING.items()}
    for labels in itertools.permutations(TELL_NOTHING, 2):
        told = load(f"{kernels}:{name}", first.fact)
        for label in (*labels, "ordinary"):
            assert torch.equal(told.function(TELL_NOTHING[label].clone()).nan_to_num(7.0), due[label].nan_to_num(7.0))
        assert (told.call, told.function.unjudged) == (first.call, first.function.unjudged)


def test_a_worker_makes_no_trial_of_a_call_that_it_is_told(kernels, monkeypatch):
    spec = f"{kernels}:LogSoftmax"
    *_, loaded = Server(torch.device("cpu")).answer(Load(spec, ("float32",)))
    assert isinstance(loaded, Loaded)
    assert (loaded.declaration.operation, loaded.declaration.call) == ("log_softmax", "f(x.mT).mT")
    monkeypatch.setattr("softcheck.variants.adapt.Adapted.tried", None)
    for request in (
        Load(spec, ("float16",), facts={spec: loaded.fact}),
        RunCase(CASE, spec, facts={spec: loaded.fact}),
    ):
        server = Server(torch.device("cpu"))
        list(server.answer(request))
        assert server.loaded[spec].fact == loaded.fact


def _case():
    from softcheck.cases.corpus import default_corpora
    from softcheck.cases.corpus import load as load_corpora

    return next(
        case for case in load_corpora(default_corpora()) if case.family == "special" and case.dtype == "float32"
    )


CASE = _case()


def reported(*arguments):
    return CliRunner().invoke(cli, ["report", *arguments, "--dtype", "float32", "--device", "interpreter"])


def test_a_softmax_over_the_first_dimension_passes_in_several_workers_on_rows_that_tell_nothing(kernels):
    done = reported(f"{kernels}:over_rows", "--family", "special", "--family", "padding", "--jobs", "2")
    assert "over_rows: called as f(x.mT).mT: softmax over dimension 0\n" in done.output
    assert done.exit_code == 0


def test_a_report_leads_with_the_operation(kernels):
    arguments = ["--family", "ties", "--probe", "empties"]
    taken = reported(f"{kernels}:logarithms", *arguments)
    assert (
        ": called as f(x): log_softmax by its answers; add --operation to judge another" in taken.stdout.splitlines()[0]
    )
    assert taken.exit_code == 0
    obeyed = reported(f"{kernels}:logarithms", "--operation", "softmax", *arguments)
    # On standard error before any case has run, and again in the report's first line.
    first, *_, again = (line for line in obeyed.output.splitlines() if "called as" in line)
    assert obeyed.output.startswith(first)
    assert again == first.removeprefix("softcheck: ")
    assert ": its answers are those of log_softmax: add --operation log_softmax to judge it so; called as" in first
    assert "add --operation log_softmax if that is what it is to compute" in obeyed.output
    wrong = reported(f"{kernels}:too_large", *arguments)
    assert (wrong.exit_code, "its answers are those" in wrong.output) == (1, False)
    refused = reported(f"{kernels}:sums", "--operation", "softmax", *arguments)
    assert "its answers are those of another operation: add --operation logsumexp" in refused.output


def test_a_trial_that_ends_the_process_leaves_the_likeliest_call(tmp_path):
    """The plain call returns, and another ends the process: the report judges the plain one and goes on."""
    path = tmp_path / "ends.py"
    path.write_text(
        "import os, torch\n"
        "def softmax(x):\n"
        "    if x.shape[0] == 16:\n        os._exit(3)\n"
        "    return torch.softmax(x, -1) * 1.5\n"
    )
    done = reported(f"{path}:softmax", "--family", "ties", "--jobs", "2")
    assert ": called as f(x): softmax" in next(line for line in done.output.splitlines() if "called as" in line)
    assert (done.exit_code, "crash" in done.output) == (1, False)


def test_faults_of_memory_keep_their_own_cause():
    kinds = (FindingKind.OUT_OF_BOUNDS_WRITE, FindingKind.OUT_OF_BOUNDS_WRITE, FindingKind.ULP_EXCEEDS_BOUND)
    findings = [
        Finding(id=str(number), kind=kind, case=f"case/{number}", message="", reproduce=())
        for number, kind in enumerate(kinds)
    ]
    first, second = causes_of(findings, [], computing="--operation log_softmax")
    # Damaged memory may be behind anything else.
    assert first.findings == ("0", "1")
    assert second.findings == ("2",)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_torch_over_another_dimension_passes_in_every_dtype(dtype, tmp_path):
    """On a CPU torch rounds differences and exponentials to 16 bits there; another function is held to the standard."""
    (tmp_path / "k.py").write_text(
        "import torch\n\nsoftmax = torch.nn.Softmax(dim=0)\n\ndef wrong(x):\n    return torch.softmax(x, 0) * 1.01\n"
    )
    spec = f"{tmp_path}/k.py"
    chosen = ("--family", "special", "--family", "padding", "--jobs", "2", "--dtype", dtype)
    found = softcheck("report", f"{spec}:softmax", *chosen)
    assert found.returncode == 0, found.stdout
    assert "softmax over dimension 0" in found.stdout
    assert softcheck("report", f"{spec}:wrong", "--call", "f(x.mT).mT", *chosen).returncode == 1
