"""The pytest plugin in a stranger's project."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

KERNELS = """
import torch

def right(x):
    return torch.softmax(x, dim=-1)

def zero(x):
    return torch.zeros_like(x)
"""

SUITE = """
import pytest

@pytest.mark.accuracy(variants=["kernels.py:{name}"], dtypes=["float16"], families=["ties"])
def test_softmax(accuracy):
    accuracy.check()
"""


def run(pytester, name, *arguments):
    pytester.makepyfile(kernels=KERNELS)
    pytester.makepyfile(test_mine=SUITE.format(name=name))
    return pytester.runpytest_inprocess(
        "-p", "no:xdist", "--softcheck-device=interpreter", "-m", "accuracy", *arguments
    )


def test_right_kernel_passes_and_the_test_is_named_by_variant_dtype_and_family(pytester):
    result = run(pytester, "right", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["softcheck *: device interpreter; seed 0", "*kernels.py:right-float16-ties*PASSED*"])


def test_wrong_kernel_fails_with_value_expectation_bits_and_command(pytester):
    result = run(pytester, "zero")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*kernels.py:zero, float16: * broken promises*",
            "*ulp_exceeds_bound*",
            "*at ties/*/float16*",
            "*softcheck report --variant kernels.py:zero --dtype float16 --case ties/*",
        ]
    )


def test_a_drawn_seed_is_named_in_the_header_and_in_the_commands_of_probes(pytester):
    result = run(pytester, "zero", "--softcheck-probe", "shifts", "--softcheck-seed", "random")
    result.assert_outcomes(failed=1)
    [header] = [line for line in result.outlines if line.startswith("softcheck ")]
    seed = header.partition("; seed ")[2].partition(";")[0]
    result.stdout.fnmatch_lines([f"*--probe shifts --seed {seed} --device*"])


def test_a_seed_that_is_none_is_refused(pytester):
    wrong = run(pytester, "right", "--softcheck-seed", "-1")
    assert wrong.ret != 0
    wrong.stderr.fnmatch_lines(
        ["*--softcheck-seed*'-1' is no seed; expected a whole number from 0 to 4294967295, or random*"]
    )


def test_option_points_the_suite_at_another_variant(pytester):
    run(pytester, "right", "--softcheck-variant", "kernels.py:zero").assert_outcomes(failed=1)


def test_a_marker_names_files_from_the_root_folder_and_the_command_line_from_the_working_folder(pytester, monkeypatch):
    pytester.makepyfile(kernels=KERNELS)
    pytester.makepyfile(**{"inner/test_mine": SUITE.format(name="right")})
    pytester.makefile(".ini", pytest="[pytest]")
    monkeypatch.chdir(pytester.path / "inner")
    arguments = ("-p", "no:xdist", "--softcheck-device=interpreter", "-m", "accuracy", "-v")
    result = pytester.runpytest_inprocess(*arguments)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*[[]kernels.py:right-float16-ties[]]*PASSED*"])
    pytester.runpytest_inprocess(*arguments, "--softcheck-variant", "../kernels.py:zero").assert_outcomes(failed=1)


def test_a_path_from_the_tests_folder_is_refused_with_the_folder_that_paths_start_from(pytester):
    pytester.makepyfile(**{"inner/kernels": KERNELS, "inner/test_mine": SUITE.format(name="right")})
    pytester.makefile(".ini", pytest="[pytest]")
    result = pytester.runpytest_inprocess("-p", "no:xdist", "--softcheck-device=interpreter", "-m", "accuracy")
    assert result.ret != 0
    result.stdout.fnmatch_lines([f"*kernels.py does not exist*root folder {pytester.path}, not from the folder of*"])


def test_misspelt_dtype_is_a_usage_error_not_a_skip(pytester):
    result = run(pytester, "right", "--softcheck-dtype", "flaot16")
    assert result.ret != 0
    result.stderr.fnmatch_lines(["*--softcheck-dtype*unknown dtype*flaot16*"])


def test_undeclared_dtype_is_skipped_with_the_reason(pytester):
    result = run(pytester, "right", "--softcheck-dtype", "float64", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*kernels.py:right declares float16, bfloat16, float32, not float64*"])


def test_declared_defect_is_an_expected_failure(pytester):
    result = run(pytester, "right", "--softcheck-variant", "notebook_basic", "--softcheck-family", "normal")
    result.assert_outcomes(xfailed=1)


def test_misspelt_variant_and_marker_argument_are_usage_errors(pytester):
    result = run(pytester, "right", "--softcheck-variant", "torhc")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*unknown variant 'torhc'; did you mean 'torch'*"])
    pytester.makepyfile(test_mine=SUITE.format(name="right").replace("families", "familys"))
    result = pytester.runpytest_inprocess("-p", "no:xdist", "-m", "accuracy")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*unknown argument*familys*"])


def test_marker_is_registered(pytester):
    result = pytester.runpytest_inprocess("--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.accuracy(variants, dtypes, families, corpora, probes)*"])


GENERATED = """
import pytest

@pytest.mark.accuracy(variants=["kernels.py:{name}"], dtypes=["float16"])
def test_softmax(generated_accuracy):
    generated_accuracy.search()
"""


@pytest.mark.parametrize(("name", "outcome"), [("right", {"passed": 1}), ("zero", {"failed": 1})])
def test_generated_cases_find_a_wrong_kernel_and_print_the_command_that_saves_it(pytester, name, outcome):
    pytester.makepyfile(kernels=KERNELS)
    pytester.makepyfile(test_mine=GENERATED.format(name=name))
    result = pytester.runpytest_inprocess("-p", "no:xdist", "--softcheck-device=interpreter", "--softcheck-generate=20")
    result.assert_outcomes(**outcome)
    if name == "zero":
        result.stdout.fnmatch_lines(["*softcheck corpus add --variant kernels.py:zero --dtype float16 --bits *"])


PROBED = """
import pytest

@pytest.mark.accuracy(variants=["kernels.py:{name}"], dtypes=["float16"], {more})
def test_softmax(accuracy):
    accuracy.check()
"""

FAULTY = """
import torch
from softcheck import variant

def right(x):
    return torch.softmax(x, dim=-1)

def keepdims(x):
    return torch.exp(x - x.max(dim=-1, keepdim=True).values).softmax(-1) if x.numel() == 0 else right(x)

def forgets(x):
    return right(x) if x.numel() else x.new_empty(0)

@variant(known_defects=({"kinds": ("wrong_shape",), "cases": ("probe/empties/*",), "reason": "no maximum of nothing"},))
def declared(x):
    return forgets(x)
"""


def run_probed(pytester, name, more, *arguments):
    pytester.makepyfile(kernels=FAULTY)
    pytester.makepyfile(test_mine=PROBED.format(name=name, more=more))
    return pytester.runpytest_inprocess("-p", "no:xdist", "--softcheck-device=interpreter", "-v", "-rx", *arguments)


@pytest.mark.parametrize(
    ("name", "outcome", "said"),
    [
        ("right", {"passed": 1}, "*kernels.py:right-float16-probe-empties*PASSED*"),
        ("keepdims", {"skipped": 1}, "*kernels.py:keepdims-float16-probe-empties* SKIPPED*"),
        ("forgets", {"failed": 1}, "*at probe/empties/*"),
        ("forgets", {"failed": 1}, "*softcheck report --variant kernels.py:forgets --dtype float16 --probe empties *"),
        ("declared", {"xfailed": 1}, "*no maximum of nothing*"),
    ],
)
def test_probe_is_a_test_of_its_own(pytester, name, outcome, said):
    result = run_probed(pytester, name, 'families=["ties"], probes=["empties"]', "-k", "probe")
    result.assert_outcomes(**outcome, deselected=1)
    result.stdout.fnmatch_lines([said])


@pytest.mark.parametrize(
    ("more", "arguments", "probes"),
    [
        ("", ["--softcheck-family", "ties"], False),
        ("", ["--softcheck-probe", "empties"], True),
        ('families=["ties"]', [], False),
        ("", [], True),
        ("probes=()", [], False),
    ],
)
def test_probes_run_unless_only_cases_are_chosen(pytester, more, arguments, probes):
    result = run_probed(pytester, "right", more, "--collect-only", *arguments)
    collected = [line for line in result.outlines if "<Function" in line]
    assert collected
    assert any("probe-empties" in line for line in collected) == probes
    assert all("probe-" in line for line in collected) == ("--softcheck-probe" in arguments)


def test_misspelt_probe_is_a_usage_error(pytester):
    result = run_probed(pytester, "right", 'probes=["emptys"]')
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*unknown probe 'emptys'; did you mean 'empties'*"])


REFUSING = """
import torch

def beyond(x):
    if x.shape[1] > 100:
        raise ValueError(f"{x.shape[1]} is more than 100")
    return torch.softmax(x, dim=-1)

def odd(x):
    if x.shape[1] % 2:
        raise ValueError("odd")
    return torch.softmax(x, dim=-1)

def wrong_up_to_the_limit(x):
    y = beyond(x)
    return y if x.shape[1] < 100 else torch.zeros_like(x)

def everything(x):
    raise ValueError("never")

def many_elements(x):
    if x.numel() > 300:
        raise ValueError("too many")
    return torch.softmax(x, dim=-1)

def empty(x):
    if not x.numel():
        raise ValueError("nothing there")
    return torch.softmax(x, dim=-1)
"""


def run_refusing(pytester, name, more, *arguments, suite=None):
    pytester.makepyfile(kernels=REFUSING)
    pytester.makepyfile(test_mine=(suite or PROBED).format(name=name, more=more))
    return pytester.runpytest_inprocess("-p", "no:xdist", "--softcheck-device=interpreter", "-v", "-rs", *arguments)


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        (
            "beyond",
            'families=["widths"]',
            "*refuses beyond 100 columns (101 *more than 100 at *max_columns=100 (*cases)",
        ),
        ("beyond", 'probes=["sizes"], families=["ties"]', "*refuses beyond 100 columns (101 *declare max_columns=100"),
        ("many_elements", 'families=["widths"]', "*refuses beyond * elements *too many*"),
        ("empty", 'families=["empty"]', "*refuses inputs without elements*nothing there*"),
    ],
)
def test_a_refused_size_is_skipped_with_what_to_declare_and_fails_where_every_size_is_promised(
    pytester, monkeypatch, name, more, said
):
    only = ("-k", "probe" if "probes" in more else "float16")
    result = run_refusing(pytester, name, more, *only)
    assert result.parseoutcomes()["skipped"] == 1, result.stdout.str()
    assert "failed" not in result.parseoutcomes()
    result.stdout.fnmatch_lines([f"SKIPPED*{said}"])
    promised = run_refusing(pytester, name, more, *only, "--softcheck-require-all-sizes")
    assert promised.parseoutcomes()["failed"] == 1
    promised.stdout.fnmatch_lines(["*--require-all-sizes*"])
    monkeypatch.setenv("SOFTCHECK_REQUIRE_ALL_SIZES", "1")
    assert run_refusing(pytester, name, more, *only).parseoutcomes()["failed"] == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("odd", "*at widths/*"),
        ("wrong_up_to_the_limit", "*at generated/1x100/*"),
        ("everything", "*at widths/*"),
    ],
)
def test_a_refusal_that_is_no_limit_and_what_is_wrong_below_one_fail(pytester, name, said):
    result = run_refusing(pytester, name, 'families=["widths"]')
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([said])


@pytest.mark.parametrize(("name", "outcome"), [("beyond", {"skipped": 1}), ("odd", {"failed": 1})])
def test_generated_cases_beyond_a_limit_are_skipped_too(pytester, name, outcome):
    result = run_refusing(pytester, name, "", "--softcheck-generate=60", suite=GENERATED)
    result.assert_outcomes(**outcome)


NOT_JUDGED = """
import pytest

{marker}
def test_softmax({fixture}):
    assert True
"""

MARKED = '@pytest.mark.accuracy(variants=["kernels.py:right"], dtypes=["float16"], families=["ties"])'


def run_suite(pytester, suite, *arguments):
    pytester.makepyfile(kernels=KERNELS)
    pytester.makepyfile(test_mine=suite)
    return pytester.runpytest_inprocess("-p", "no:xdist", "--softcheck-device=interpreter", *arguments)


@pytest.mark.parametrize(
    ("marker", "fixture", "said"),
    [
        (MARKED, "accuracy", "never called accuracy.check()"),
        (MARKED, "generated_accuracy", "never called generated_accuracy.search()"),
        (MARKED, "", "asks for none of its fixtures"),
        ("@pytest.mark.accuracy", "", "asks for none of its fixtures"),
    ],
)
def test_a_test_that_judges_nothing_fails(pytester, marker, fixture, said):
    result = run_suite(pytester, NOT_JUDGED.format(marker=marker, fixture=fixture))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*nothing was judged*{said}*"])
    assert "Traceback" not in result.stdout.str()
    assert ".py:" not in result.stdout.str().split("FAILURES")[1].split("short test summary")[0].replace(
        "kernels.py:", ""
    )


def test_tests_that_skip_or_fail_by_themselves_are_left_alone(pytester):
    body = f'''
import pytest

pytestmark = pytest.mark.accuracy(variants="kernels.py:zero", dtypes="float16", families="ties")

def test_without_the_fixture():
    """The module's marker gives the arguments; this test is none of softcheck's."""

def test_that_skips(accuracy):
    pytest.skip("not today")

def test_that_expects_a_failure(accuracy):
    with pytest.raises(pytest.fail.Exception, match="broken promises"):
        accuracy.check()

{MARKED}
@pytest.mark.skip(reason="not today")
def test_that_is_skipped():
    pass
'''
    run_suite(pytester, body).assert_outcomes(passed=2, skipped=2)


def test_a_projects_own_marker_of_the_same_name_is_left_alone(pytester):
    pytester.makeini("[pytest]\nmarkers =\n    accuracy: slow tests of ours")
    run_suite(pytester, NOT_JUDGED.format(marker="@pytest.mark.accuracy", fixture="")).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        ("", "*no accuracy marker*@pytest.mark.accuracy(variants=*"),
        ('@pytest.mark.accuracy("kernels.py:right")', "*takes keywords, got 'kernels.py:right'*"),
        ("@pytest.mark.accuracy(dtypes=16)", "*dtypes=16; expected a list of names*"),
        ("@pytest.mark.accuracy(variants=[])", "*variants is empty*"),
        ('@pytest.mark.accuracy(dtypes=["flaot16"])', "*unknown dtype 'flaot16'*"),
        ('@pytest.mark.accuracy(variants=["torhc"])', "*unknown variant 'torhc'; did you mean 'torch'*"),
    ],
)
def test_usage_errors_are_shown_alone(pytester, marker, said):
    result = run_suite(pytester, NOT_JUDGED.format(marker=marker, fixture="accuracy"))
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([said])
    shown = result.stdout.str().split("ERRORS")[1].split("short test summary")[0].splitlines()
    assert len(shown) <= 5, shown


def test_a_single_name_stands_for_a_list_of_one(pytester):
    suite = (
        SUITE.format(name="right").replace('["kernels.py:right"]', '"kernels.py:right"').replace('["ties"]', '"ties"')
    )
    result = run_suite(pytester, suite.replace('["float16"]', '"float16"'), "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*kernels.py:right-float16-ties*PASSED*"])


def test_an_error_of_softchecks_own_while_judging_is_shown_alone(pytester):
    result = run_suite(pytester, SUITE.format(name="nowhere"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*has no 'nowhere'*"])
    assert "softcheck/testing.py" not in result.stdout.str()


def test_environment_stands_for_options_and_pyproject_for_what_the_marker_leaves_open(pytester, monkeypatch):
    suite = SUITE.format(name="right").replace(', dtypes=["float16"]', "")
    pytester.makepyprojecttoml('[tool.softcheck]\ndtype = "bfloat16"\nvariant = "torch"\nmax-slowdown = 0.1')
    result = run_suite(pytester, suite, "--collect-only", "-q")
    result.stdout.fnmatch_lines(["*[[]kernels.py:right-bfloat16-ties[]]", "1 test collected*"])
    monkeypatch.setenv("SOFTCHECK_DTYPE", "float16 float32")
    monkeypatch.setenv("SOFTCHECK_VARIANT", "kernels.py:zero")
    result = run_suite(pytester, suite, "--collect-only", "-q")
    result.stdout.fnmatch_lines(["*zero-float16-ties[]]", "*zero-float32-ties[]]", "2 tests collected*"])
    result = run_suite(pytester, suite, "--collect-only", "-q", "--softcheck-dtype", "float64")
    result.stdout.fnmatch_lines(["*zero-float64-ties[]]", "1 test collected*"])


@pytest.mark.parametrize(
    ("table", "environment", "said"),
    [
        ("dtpye = 'float16'", {}, "*no setting 'dtpye'; did you mean 'dtype'*"),
        ("dtype = 16", {}, "*dtype = 16: unknown dtype '16'*"),
        ("", {"SOFTCHECK_DEVICE": "gpu"}, "*SOFTCHECK_DEVICE*'gpu' is not one of 'auto', 'cuda', 'interpreter'*"),
        ("", {"SOFTCHECK_REQUIRE_ALL_SIZES": "maybe"}, "*_REQUIRE_ALL_SIZES*'maybe' is not a valid boolean*"),
        ("generate = 0", {}, "*generate = 0: 0 is not in the range x>=1*"),
    ],
)
def test_wrong_settings_are_usage_errors(pytester, monkeypatch, table, environment, said):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    pytester.makepyprojecttoml(f"[tool.softcheck]\n{table}")
    pytester.makepyfile(kernels=KERNELS)
    pytester.makepyfile(test_mine=SUITE.format(name="right"))
    result = pytester.runpytest_inprocess("-p", "no:xdist")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])
    assert "Traceback" not in result.stderr.str()


def test_a_variable_that_is_no_setting_is_warned_of(pytester, monkeypatch):
    monkeypatch.setenv("SOFTCHECK_DTPYE", "float16")
    result = run_suite(pytester, SUITE.format(name="right"), "--collect-only", "-q")
    result.stdout.fnmatch_lines(["*SOFTCHECK_DTPYE is no setting; did you mean 'SOFTCHECK_DTYPE'*"])


def test_one_bug_fails_one_test_with_its_cause_and_the_others_point_to_it(pytester):
    pytester.makepyfile(kernels=(Path(__file__).parents[2] / "examples" / "padded_with_zero.py").read_text())
    pytester.makepyfile(
        test_mine=SUITE.format(name="softmax").replace('families=["ties"]', 'families=["ties", "uniform", "padding"]')
    )
    result = pytester.runpytest_inprocess("-p", "no:xdist", "--softcheck-device=interpreter", "-rx")
    result.assert_outcomes(failed=1, xfailed=2)
    cause = "the sums are those with a logit of 0 in each lane beyond the row, up to a power of two"
    result.stdout.fnmatch_lines(
        [f"  {cause} *", "    fix: *other=-float*", "*--case *", f"*failed of the same cause: {cause}"]
    )
    assert len(result.outlines) <= 40
