"""Means and sums over many row counts."""

import pytest
import torch

from softcheck.operations.targets import batch_of, in_rows
from softcheck.probes import meetings
from softcheck.probes.base import Setting, Subject
from softcheck.probes.space.attempts import Attempts
from softcheck.variants.registry import load


def found_in(tmp_path, body, reduction="mean"):
    """The violations of the ways of a mean that stand before a plan."""
    path = tmp_path / f"kernels{len(list(tmp_path.glob('*.py')))}.py"
    path.write_text(
        f'import torch\nimport softcheck\n@softcheck.variant(operation="cross_entropy", parameters={{"reduction": "{reduction}"}})\n'
        "def cross_entropy(x, target):\n"
        '    losses = torch.nn.functional.cross_entropy(x.float(), target, reduction="none")\n' + body,
        encoding="utf-8",
    )
    variant = load(f"{path}:cross_entropy")
    setting = Setting(declaration=variant.declaration, dtype="float32", backend="interpreter")
    space = meetings._space_of(Subject(variant, setting, torch.device("cpu")))
    attempts = Attempts(space, 0)
    ways = [way for way in space.always if way.get("rows")]
    assert len(ways) >= 30
    return [str(violation.kind) for way in ways for violation in attempts.make(way).violations]


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_right_reductions_are_left_alone(tmp_path, reduction):
    assert found_in(tmp_path, f"    return losses.{reduction}()\n", reduction) == []


@pytest.mark.parametrize(
    "wrong",
    [
        "torch.stack([part.mean() for part in losses.split(128)]).mean()",
        "losses[: len(losses) // 4 * 4 or 1].mean()",
        "losses.sum() / (-(-len(losses) // 8) * 8)",
    ],
)
def test_rows_that_weigh_otherwise_are_found(tmp_path, wrong):
    assert "ulp_exceeds_bound" in found_in(tmp_path, f"    return {wrong}\n")


def test_a_number_of_the_source_is_tried(tmp_path):
    assert found_in(tmp_path, "    return losses.mean() if len(losses) < 371 else losses[:370].mean()\n")


def test_rows_are_asked_for_where_columns_can_be_cut_so():
    assert batch_of(4096) == (64, 64)
    with in_rows(1024):
        assert batch_of(4096) == (1024, 4)
        assert batch_of(4097) == (17, 241) or batch_of(4097)[0] * batch_of(4097)[1] == 4097
    assert batch_of(4096) == (64, 64)


def test_losses_of_rows_have_no_such_ways():
    variant = load("cross_entropy_online")
    setting = Setting(declaration=variant.declaration, dtype="float32", backend="interpreter")
    space = meetings._space_of(Subject(variant, setting, torch.device("cpu")))
    assert not [way for way in space.always if way.get("rows") == "129"]
