"""Every causal mask, scale and combination of options: a cut of what ``benchmarks/every_option.py`` runs on a GPU, and kernels that it refuses."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "tests" / "kernels"


def ran(*words):
    command = [sys.executable, str(ROOT / "benchmarks" / "every_option.py"), *words, "--device", "interpreter"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()[-1] if done.stdout else done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("masks", "causal_online", "--every", "3331"), "6 masks of causal_online in float32: 0 with"),
        (
            ("masks", "causal_online_bottom_right", "--every", "3371"),
            "6 masks of causal_online_bottom_right in float32: 0",
        ),
        (
            ("scales", "scaled_masked_one_block", "--every", "3331"),
            "10 scales of scaled_masked_one_block in float32: 0",
        ),
        (
            ("losses", f"{KERNELS / 'every_loss.py'}:loss@operation=cross_entropy", "--every", "43"),
            "9 losses of ",
        ),
    ],
)
def test_right_functions_keep_their_promises(words, said):
    code, last = ran(*words)
    assert code == 0, last
    assert last.startswith(said)


@pytest.mark.parametrize(
    "words",
    [
        ("masks", f"{KERNELS / 'transformed.py'}:causal@causal=bottom-right", "--every", "4001"),
        ("scales", f"{KERNELS / 'masked.py'}:scale_left_out", "--every", "7001"),
        ("losses", f"{KERNELS / 'every_loss.py'}:mean_of_squares_by_weights@operation=cross_entropy", "--every", "67"),
        ("losses", f"{KERNELS / 'losses.py'}:square_without_gradient@operation=cross_entropy"),
    ],
)
def test_wrong_functions_are_refused(words):
    code, last = ran(*words)
    assert code == 1
    assert not last.endswith(": 0 with a broken promise")
    assert last.endswith("with a broken promise"), "it came to its end"


def test_a_variant_without_a_mask_is_told_what_to_declare():
    code, said = ran("masks", "torch")
    assert code == 2
    assert "causal=top-left" in said
