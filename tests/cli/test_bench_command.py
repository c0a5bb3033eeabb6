"""softcheck bench without a GPU: it never prints a speed, and says what is wrong."""

import pytest
from command import softcheck


@pytest.fixture(scope="module", autouse=True)
def no_gpu(request):
    patch = pytest.MonkeyPatch()
    patch.setenv("CUDA_VISIBLE_DEVICES", "")
    yield
    patch.undo()


@pytest.mark.parametrize("extra", [[], ["--profile", "--shapes", "64x64"]])
def test_without_a_gpu_nothing_is_timed_and_the_exit_code_says_so(extra, tmp_path):
    output = tmp_path / "speed.json"
    done = softcheck("bench", "one_block", "--output", str(output), *extra)
    assert done.returncode == 3, done.stderr
    assert "GPU" in done.stderr
    assert done.stdout == ""
    assert not output.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["one_blok"], "did you mean 'one_block'"),
        (["--reference", "one_blok"], "did you mean 'one_block'"),
        (["--shapes", "4096"], "expected ROWSxCOLUMNS"),
        (["--dtype", "float8"], "unknown dtype 'float8'"),
        (["--sweep", "widths"], "small-batch"),
        (["--profile"], "--profile launches once, but 15 variants"),
        (["--operation", "attention", "--declare", "head_dim=0"], "head_dim is 0"),
        (["--output", "missing/folder/x.json"], "there is no folder"),
    ],
)
def test_wrong_usage_is_said(arguments, message):
    done = softcheck("bench", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
