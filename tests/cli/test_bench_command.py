"""softcheck bench without a GPU: it never prints a speed, and says what is wrong."""

import pytest
from command import softcheck

from softcheck.cli.bench import speed_report
from softcheck.run.model import Run, RunOptions
from softcheck.run.protocol import Ready
from softcheck.speed.samples import Sampled, ShapeSamples
from softcheck.variants.declaration import Declaration


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


def test_what_is_left_out_of_a_shape_has_its_reason():
    one = Sampled(name="a", seconds=(1.0,) * 12)
    options = RunOptions(
        variants=("a", "b", "c", "d"), dtypes=("float16",), cases=(), whole_corpus=False, shapes=((4, 4096),)
    )
    run = Run(
        options=options,
        ready=Ready(backend="cuda", device="GPU", torch="2", triton="3", python="3.11", driver="1"),
        declarations={
            "a": Declaration(),
            "b": Declaration(dtypes=("float32",)),
            "c": Declaration(max_columns=100),
        },
        refused={"d": "no such function"},
        untimed=["float16 4x8192: no speed: no room"],
    )
    run.speeds += [
        ShapeSamples(
            dtype="float16",
            rows=4,
            columns=4096,
            operands=operands,
            variants=(one,),
            copy=one,
            torch=one,
            cache="cold",
            stopped="budget",
        )
        for operands in ((), ("mask",))
    ]
    report = speed_report(run, "torch", ["softcheck", "bench"])
    reasons = [[(figures.variant, figures.reason) for figures in shape.variants] for shape in report.shapes]
    own = ("a", None)
    assert reasons == [[own, ("b", "declares float32"), ("c", "declares at most 100 columns")], [own]]
    assert report.errors == ("d: no such function", "float16 4x8192: no speed: no room")
