"""Conditions of a variant's own code, and how they came out in the calls that were traced."""

import pytest

from softcheck.variants.coverage import code_branches, code_lines, never_run, one_sided
from softcheck.variants.registry import load
from softcheck.variants.signatures import Recorder, tracing
from softcheck.variants.source import read, source_of

CODE = '''\
def softmax(x):
    """Conditions of every kind."""
    if x > 3:
        x = 3
    if (x > 1
            and x < 9):
        return x
    while x > 0:
        x -= 1
    if x == 0:
        y = 1
    else:
        y = 2
    if True:
        y += 0
    if y > 5: y = 5
    for i in range(2):
        if i:
            continue
        y += i
    try:
        if fails(x):
            y = 0
    except ValueError:
        y = 7
    return [z for z in (y,) if z] if y else None


def fails(x):
    if x < -50:
        raise ValueError
    return False
'''


@pytest.fixture
def traced(tmp_path):
    """Returns what a call with each of some arguments leaves to be said, and the number of conditions."""
    file = tmp_path / "kernels.py"
    file.write_text(CODE, encoding="utf-8")
    source = read(file)
    space = {}
    exec(compile(CODE, str(file), "exec"), space)
    branches = code_branches(source, "softmax")

    def run(*arguments):
        recorder = Recorder(source.files, conditions=source.condition_lines)
        with tracing(recorder):
            for argument in arguments:
                space["softmax"](argument)
        lines, arcs = recorder.lines, recorder.arcs
        never = never_run(code_lines(source, "softmax"), lines, branches)
        words = [*never, *one_sided(branches, lines, arcs)]
        met = {branch.lines[0]: (branch.was_true(lines), branch.was_false(lines, arcs)) for branch in branches}
        return [each.replace(" of kernels.py", "") for each in words], met

    return run


def test_conditions_that_share_a_line_with_their_body_and_constant_ones_are_left_out(traced):
    assert set(traced(0)[1]) == {3, 5, 8, 10, 18, 22, 30}


def test_a_condition_that_was_never_false_is_named_though_all_lines_ran(traced):
    words, met = traced(4, 5)
    assert met[3] == (True, False)
    assert met[5] == (True, False)
    assert met[8] == (False, False)
    assert "`if x > 3` at line 3 was never false" in words
    assert "lines 8-9: `while x > 0`" not in words
    assert "line 9: `while x > 0`" in words
    assert not any("line 8 " in word for word in words)


def test_a_condition_that_was_never_true_is_named_with_its_lines(traced):
    words, met = traced(0)
    assert met[3] == met[5] == met[8] == met[22] == met[30] == (False, True)
    assert "line 4: `if x > 3` was never true" in words
    assert "line 13: `if x == 0` was never false" in words
    assert met[10] == (True, False)
    assert met[18] == (True, True)


def test_an_exception_in_a_condition_shows_no_outcome(traced):
    _, met = traced(-60)
    assert met[22] == (False, False)
    assert met[30] == (True, False)


def test_nothing_is_said_of_conditions_that_came_out_both_ways(traced):
    words, met = traced(4, 1, 0, -1)
    assert {line for line, sides in met.items() if sides == (True, True)} == {3, 5, 8, 10, 18}
    assert not any(f"line {line} " in word for line in (3, 5, 8, 10, 18) for word in words)


@pytest.mark.parametrize("name", ["hybrid", "online", "attention_online", "cross_entropy_chunked"])
def test_a_built_in_variants_declaration_is_no_code_of_its_own(name):
    lines = code_lines(source_of(load(name).function), name)
    assert {line.guard for line in lines} >= {f"def {name}"}
    assert not [line for line in lines if "declarations" in line.file]
