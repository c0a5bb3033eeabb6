"""Means and sums over many row counts."""

import pytest
import torch

from softcheck.operations.targets import batch_of, in_rows
from softcheck.probes.base import Setting, Subject
from softcheck.probes.sweeps import BATCHES as PROBE
from softcheck.variants.registry import load


def concluded(tmp_path, body, reduction="mean"):
    path = tmp_path / f"kernels{len(list(tmp_path.glob('*.py')))}.py"
    path.write_text(
        f'import torch\nimport softcheck\n@softcheck.variant(operation="cross_entropy", parameters={{"reduction": "{reduction}"}})\n'
        "def cross_entropy(x, target):\n"
        '    losses = torch.nn.functional.cross_entropy(x.float(), target, reduction="none")\n' + body,
        encoding="utf-8",
    )
    variant = load(f"{path}:cross_entropy")
    setting = Setting(declaration=variant.declaration, dtype="float32", backend="interpreter")
    subject = Subject(variant, setting, torch.device("cpu"))
    return PROBE.conclude([(trial, PROBE.run(subject, trial)) for trial in PROBE.trials(setting)])


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_right_reductions_are_left_alone(tmp_path, reduction):
    found = concluded(tmp_path, f"    return losses.{reduction}()\n", reduction)
    assert (found.findings, found.trials) == ((), 2)


@pytest.mark.parametrize(
    "wrong",
    [
        "torch.stack([part.mean() for part in losses.split(128)]).mean()",
        "losses[: len(losses) // 4 * 4 or 1].mean()",
        "losses.sum() / (-(-len(losses) // 8) * 8)",
    ],
)
def test_rows_that_weigh_otherwise_are_found(tmp_path, wrong):
    found = concluded(tmp_path, f"    return {wrong}\n")
    assert str(found.findings[0].violation.kind) == "ulp_exceeds_bound"


def test_a_number_of_the_source_is_tried(tmp_path):
    body = "    return losses.mean() if len(losses) != 371 else losses[:370].mean()\n"
    assert "1112 rows" not in str(concluded(tmp_path, body).findings)
    assert concluded(tmp_path, body.replace("!= 371", "< 371")).findings


def test_rows_are_asked_for_where_columns_can_be_cut_so():
    assert batch_of(4096) == (64, 64)
    with in_rows(1024):
        assert batch_of(4096) == (1024, 4)
        assert batch_of(4097) == (17, 241) or batch_of(4097)[0] * batch_of(4097)[1] == 4097
    assert batch_of(4096) == (64, 64)


def test_losses_of_rows_have_no_such_trials():
    setting = Setting(declaration=load("cross_entropy_online").declaration, dtype="float32", backend="interpreter")
    assert list(PROBE.trials(setting)) == []
