"""The command itself: its version, its suggestions, and what a shell completes."""

import re
import time

import pytest
from command import softcheck

from softcheck import __version__
from softcheck.cases.corpus import default_corpora, load
from softcheck.cli.config import settings_of
from softcheck.cli.report import report_command


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_version(option):
    done = softcheck(option)
    assert done.returncode == 0
    assert __version__ in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["reprot"], "did you mean 'report'"),
        (["corpus", "verfy"], "did you mean 'verify'"),
        (["xyz"], "expected one of: bench"),
    ],
)
def test_misspelt_command_names_the_near_one(words, said):
    done = softcheck(*words)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_function_in_a_commands_place_is_judged():
    done = softcheck("no_such_file.py:softmax", "--dtype", "float16")
    assert done.returncode == 2
    assert "the file no_such_file.py does not exist" in done.stderr


@pytest.mark.parametrize(
    ("words", "at", "expected"),
    [
        ("softcheck re", 1, {"report", "regimes", "render"}),
        ("softcheck corpus v", 2, {"verify"}),
        ("softcheck bench --prof", 2, {"--profile"}),
        ("softcheck exhaust --format s", 3, {"summary", "sarif"}),
    ],
)
def test_a_shell_completes_commands_options_and_choices(words, at, expected):
    done = softcheck(_SOFTCHECK_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(at))
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == expected


def test_help_shows_the_options_that_matter_and_help_all_every_one():
    first, everything = softcheck("report", "--help").stdout, softcheck("report", "--help-all").stdout
    assert "--dtype" in first
    assert "--max-slowdown" not in first
    assert "env var" not in first
    listed = re.findall(r"^  (?:-h, )?--([\w-]+)", everything, re.MULTILINE)
    assert sorted(listed) == sorted({*settings_of(report_command), "help", "help-all"})


def test_the_script_for_a_shell_is_printed():
    done = softcheck(_SOFTCHECK_COMPLETE="zsh_source")
    assert done.returncode == 0
    assert "#compdef softcheck" in done.stdout


def test_list_starts_no_worker():
    begun = time.monotonic()
    done = softcheck("list")
    assert done.returncode == 0
    assert "one_block " in done.stdout
    # An import of torch alone takes longer; the usual time is a third of a second.
    assert time.monotonic() - begun < 2


def test_list_names_every_family_of_the_corpora_with_a_gap_before_its_description():
    lines = softcheck("list", "families").stdout.splitlines()[1:]
    assert {line.split()[0] for line in lines} == {case.family for case in load(default_corpora())}
    for line in (*lines, *softcheck("list", "variants").stdout.splitlines()[1:]):
        assert re.match(r"  \S+ {2,}\S", line), line
