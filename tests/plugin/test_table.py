"""The table, the page and the fixture of figures, in a stranger's project, with and without pytest-xdist."""

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

KERNELS = """
import torch

def right(x):
    return torch.softmax(x, dim=-1)

def zero(x):
    return torch.zeros_like(x)

def killed(x):
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)

def beyond(x):
    if x.shape[1] > 100:
        raise ValueError("too wide")
    return torch.softmax(x, dim=-1)
"""

SUITE = """
import pytest

@pytest.mark.accuracy(variants=[{names}], dtypes=["fp16"], families=["ties"], probes=["empties"])
def test_softmax(accuracy):
    accuracy.check()
"""

TABLE = re.compile(r"kernels\.py:(\w+) +(pass|fail|known|unsupported|error) .*")
APART = ("-p", "no:xdist", "--softcheck-device=interpreter")
BESIDE = ("-p", "xdist", "-n2", "--dist", "load", "--softcheck-device=interpreter")


def run(pytester, *names, arguments=APART, suite=SUITE, **environment):
    pytester.makepyfile(kernels=KERNELS)
    pytester.makepyfile(test_mine=suite.format(names=", ".join(f'"kernels.py:{name}"' for name in names)))
    runs = pytester.runpytest_inprocess if "no:xdist" in arguments else pytester.runpytest_subprocess
    return runs(*arguments)


def verdicts(result):
    """Verdicts by name, from the one table below the section's title."""
    text = result.stdout.str()
    assert len(re.findall("^=+ softcheck =+$", text, re.MULTILINE)) == 1
    rows = TABLE.findall(text.partition("= softcheck =")[2])
    assert len(rows) == len(dict(rows))
    return dict(rows)


@pytest.mark.parametrize("arguments", [APART, BESIDE], ids=["one process", "xdist"])
def test_one_table_and_one_page_show_what_all_tests_have_judged(pytester, arguments):
    result = run(pytester, "right", "zero", "beyond", arguments=(*arguments, "--softcheck-html", "page.html"))
    assert verdicts(result) == {"right": "pass", "zero": "fail", "beyond": "pass"}
    result.stdout.fnmatch_lines(
        [
            "3 variants: 2 pass, 1 fail; * cases in * families, * probe*",
            f"softcheck: {pytester.path.as_uri()}/page.html",
        ]
    )
    page = (pytester.path / "page.html").read_text(encoding="utf-8")
    for name in ("right", "zero", "beyond"):
        assert f"kernels.py:{name}" in page


def test_what_one_test_judges_again_counts_once(pytester):
    twice = SUITE + "\ntest_again = test_softmax\n"
    once, again = (run(pytester, "right", suite=suite) for suite in (SUITE, twice))
    again.assert_outcomes(passed=2 * once.parseoutcomes()["passed"])
    counted = [re.search(r"1 pass; (.*);", result.stdout.str())[1] for result in (once, again)]
    assert counted[0] == counted[1]


def test_a_variant_that_was_given_up_says_what_was_not_run(pytester):
    result = run(pytester, "killed", arguments=(*APART, "--softcheck-probe", "empties", "--softcheck-family", "ties"))
    assert verdicts(result) == {"killed": "fail"}
    result.stdout.fnmatch_lines(["*kernels.py:killed *crash*"])


def test_a_variant_that_can_not_be_loaded_is_an_error_in_the_summary_of_a_github_step_too(pytester, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    assert verdicts(run(pytester, "nowhere")) == {"nowhere": "error"}
    assert (pytester.path / "summary.md").read_text().startswith("## softcheck\n\n**1 variant: 1 error;")


@pytest.mark.parametrize("arguments", [("-qq",), ("-k", "nothing")], ids=str)
def test_no_table_is_shown_where_nothing_was_judged_or_pytest_shall_not_speak(pytester, arguments):
    assert "= softcheck =" not in run(pytester, "right", arguments=(*APART, *arguments)).stdout.str()


def test_a_page_of_nothing_is_not_written_and_one_that_can_not_be_is_refused_at_once(pytester):
    result = run(pytester, "right", arguments=(*APART, "--softcheck-html", "page.html", "-k", "nothing"))
    result.stdout.fnmatch_lines(["softcheck: no page: no test judged anything"])
    assert not (pytester.path / "page.html").exists()
    refused = run(pytester, "right", arguments=(*APART, "--softcheck-html", "no/such/page.html"))
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(["*softcheck: --softcheck-html '*page.html': there is no folder*"])


def test_a_run_that_was_ended_early_says_so(pytester):
    ended = SUITE + "\ndef test_end():\n    pytest.exit('enough')\n"
    result = run(pytester, "right", suite=ended)
    assert verdicts(result) == {"right": "pass"}
    result.stdout.fnmatch_lines(["1 variant: 1 pass; *; INTERRUPTED"])


FIGURES = """
import pytest

@pytest.mark.accuracy(variants=[{names}], dtypes=["fp16"], families=["ties"])
def test_softmax(accuracy, softcheck_report):
    accuracy.check()
    (row,) = softcheck_report().variants
    assert (row.name, row.dtype, row.verdict) == ("kernels.py:right", "float16", "pass")
    assert 0 < row.max_ulp < 1
    assert row.cases_run == len(accuracy.cases)

@pytest.mark.accuracy(variants=[{names}], dtypes=["fp16"])
def test_generated(generated_accuracy, softcheck_report):
    generated_accuracy.search()
    assert softcheck_report().variants[0].cases_run > 5

@pytest.mark.accuracy(variants=[{names}], dtypes=["fp16"], families=["ties"])
def test_too_early(accuracy, softcheck_report):
    softcheck_report()
"""


def test_figures_are_of_what_the_test_has_judged(pytester):
    result = run(pytester, "right", suite=FIGURES, arguments=(*APART, "--softcheck-generate=10"))
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*softcheck_report: this test has judged nothing yet; call accuracy.check()*"])


def test_the_example_of_the_docs_passes(pytester):
    text = (Path(__file__).parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    pytester.makepyfile(my_kernels=KERNELS.replace("def right", "def softmax"))
    pytester.makepyfile(test_mine=example)
    pytester.runpytest_inprocess(*APART).assert_outcomes(passed=1)
