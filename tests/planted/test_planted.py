"""Every wrong kernel gives the finding that it must, and no right one gives any.

On a GPU all of them run; under the interpreter those that it can show.
"""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from planted import FOLDER, FOLDERS, all_bugs, all_controls, saved_cases, table
from showing import accusations, kinds_shown, long_probes

from softcheck.probes.registry import PROBES
from softcheck.run.plan import left_out
from softcheck.run.session import Session

WIDEST = 200
"""Columns of a control's cases: beyond, a case costs more than the twenty others that show as much."""

SHARES = 20
"""Parts of the cases and the probes, of which a control runs one in a dtype: several controls run each case and probe."""

ALIKE = 1
"""Wrong kernels that one and the same case or trial shows, of which as many run where there is no GPU: the first of an operation."""

PARTS = 12
"""Parts of the kernels, each compiled by a process of its own. Where there is a GPU all are; elsewhere the first, since a kernel takes
a fifth of a second and changes seldom."""

ELSEWHERE = {"ScalingIntelligence/KernelBench#165"}
"""Reports of peers' judges, which no case comes from."""


def in_turn(planted, kernels):
    """One of a kernel's dtypes, the next one for the next kernel."""
    return planted.dtypes[kernels.index(planted) % len(planted.dtypes)]


@pytest.fixture(scope="module")
def session():
    opened = Session("auto", jobs=1)
    yield opened
    opened.close()


def _bugs():
    """All wrong kernels, with a mark where a GPU is needed, or where enough others are shown by the same.

    Of those that a long probe shows, some minute each, the first softmax of each probe runs without a GPU: tests/probes tries these
    probes on functions of torch.
    """
    places, shown, without = Counter(), Counter(), set()
    turns = []
    for planted in all_bugs():
        places[planted.path.parent, planted.shown_by] += 1
        turns.append((places[planted.path.parent, planted.shown_by], planted))
    for _, planted in sorted(turns, key=lambda turn: turn[0]):
        probes = long_probes(planted)
        if "interpreter" in planted.backends and (not probes or planted.path.parent == FOLDER / "bugs"):
            shown[probes or planted.shown_by] += 1
            without |= {planted.path} if shown[probes or planted.shown_by] <= ALIKE else set()
    return [
        pytest.param(planted, id=planted.name, marks=() if planted.path in without else pytest.mark.gpu)
        for planted in all_bugs()
    ]


@pytest.mark.parametrize("planted", _bugs())
def test_bug_is_found(session, planted):
    if session.ready.backend not in planted.backends:
        pytest.skip(f"shows on {', '.join(planted.backends)} alone")
    assert not isinstance(session.load(planted.spec, planted.dtypes), str)
    on_gpu = session.ready.backend == "cuda"
    for dtype in planted.dtypes if on_gpu else [in_turn(planted, all_bugs())]:
        found = kinds_shown(session, planted, dtype)
        assert planted.expected & set().union(*found.values()), (
            f"{dtype}: expected one of {sorted(planted.expected)}, found {found}"
        )


def _dtypes(planted):
    """All dtypes with a GPU to run on. Kernels take turns elsewhere, where each case costs tens of milliseconds."""
    of_turn = in_turn(planted, all_controls())
    return [
        pytest.param(planted, dtype, id=f"{planted.name}-{dtype}", marks=() if dtype == of_turn else pytest.mark.gpu)
        for dtype in planted.dtypes
    ]


@pytest.mark.parametrize(("planted", "dtype"), [each for planted in all_controls() for each in _dtypes(planted)])
def test_control_is_left_alone(session, planted, dtype):
    declaration = session.load(planted.spec, (dtype,))
    assert not isinstance(declaration, str), declaration
    cases = [case for case in saved_cases().values() if case.dtype == dtype and case.shape[1] <= WIDEST]
    # The next part of them in its next dtype, and so for the next control.
    turn = planted.dtypes.index(dtype) + all_controls().index(planted)
    chosen = [case for case in cases[turn % SHARES :: SHARES] if left_out(case, declaration) is None]
    assert len(chosen) > 3
    probes = list(PROBES)[turn % SHARES :: SHARES]
    assert accusations(session, planted, chosen, dtype, probes) == []


def test_there_are_as_many_as_the_score_says():
    assert len(all_bugs()) >= 44
    assert len(all_controls()) >= 12
    names = [planted.name for planted in (*all_bugs(), *all_controls())]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("planted", all_bugs(), ids=lambda planted: planted.name)
def test_bug_says_where_it_is_known_from(planted):
    text = (Path(__file__).parents[2] / "docs" / "field_reports.md").read_text(encoding="utf-8")
    known = {*re.findall(r"[\w.-]+/[\w.-]+#\d+", text)} | ELSEWHERE
    cited = re.findall(r"[\w.-]+/[\w.-]+#\d+", planted.reports)
    assert set(cited) <= known
    assert cited or planted.reports.startswith("From experience")
    assert planted.expected
    assert planted.shown_by


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.gpu) for part in range(1, PARTS))])
def test_kernels_compile_for_a_gpu(part):
    """The interpreter accepts kernels that the compiler refuses: those would count as caught for the wrong reason."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = os.pathsep.join([str(FOLDER.parents[1]), environment.get("PYTHONPATH", "")])
    command = [sys.executable, str(FOLDER / "compiling_child.py"), str(part), str(PARTS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    *failed, last = done.stdout.splitlines()
    assert failed == []
    assert int(last.split()[0]) > len(all_bugs()) // PARTS // 2


def test_readme_lists_every_file():
    assert table() in (FOLDER / "README.md").read_text(encoding="utf-8"), "run python tests/planted/planted.py"


def test_folders_hold_nothing_else():
    known = {planted.path for planted in (*all_bugs(), *all_controls())}
    there = {path for of in FOLDERS for folder in ("bugs", "controls") for path in Path(of / folder).glob("*.*")}
    assert there == known
