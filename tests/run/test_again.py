"""A finding is shown again before it is one: what shows once is a note, and chance and history are faults."""

from pathlib import Path

import pytest
from test_blame import FIVE, FOUR, THIRTY, THREE, TWO, kinds, run

from softcheck.contract import FindingKind
from softcheck.run.pool import Pool
from softcheck.run.probing import run_probe
from softcheck.run.protocol import ProbeTask
from softcheck.run.session import Session

FILE = Path(__file__).parents[1] / "kernels" / "seen_once.py"


def of(name):
    return f"{FILE}:{name}"


@pytest.fixture(autouse=True)
def mark(tmp_path, monkeypatch):
    monkeypatch.setenv("SEEN_ONCE", str(tmp_path / "mark"))


@pytest.fixture
def fresh(monkeypatch):
    """The processes that were asked for to make a call alone."""
    asked, take = [], Pool.take

    def counted(self, variant=None, *, fresh=False, check_heap=False):
        asked.extend([fresh] * fresh)
        return take(self, variant, fresh=fresh, check_heap=check_heap)

    monkeypatch.setattr(Pool, "take", counted)
    return asked


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wrong_in_the_first_process", "sum_violation ("),
        ("raises_in_the_first_process", "raised (RuntimeError: "),
    ],
)
def test_what_shows_once_is_a_note(name, words):
    found, blames, notes = run([TWO, THREE, FOUR], [of(name)])
    assert (len(found), kinds(found.values()), blames) == (3, set(), [])
    assert any(f"{THREE.id}: seen once, not again alone: {words}" in note for note in notes), notes


def test_a_fault_of_every_call_is_shown_again_once(fresh):
    found, _, notes = run([TWO, THREE, FOUR, FIVE], [of("wrong_everywhere")])
    assert all(FindingKind.SUM_VIOLATION in {v.kind for v in r.measurement.violations} for r in found.values())
    assert (len(fresh), notes) == (1, [])


def test_right_calls_are_not_repeated(fresh):
    assert kinds(run([TWO, THREE, FOUR], ["eager"])[0].values()) == set()
    assert fresh == []


def test_a_fault_of_some_calls_is_a_finding():
    found, _, notes = run([TWO, THREE, FOUR, FIVE], [of("wrong_in_every_third_call")])
    assert FindingKind.SUM_VIOLATION in kinds(found.values())
    assert not any("seen once" in note for note in notes)


def test_a_fault_that_earlier_calls_bring_about_is_a_finding_with_a_note():
    found, _, notes = run([TWO, THREE, THIRTY, FOUR], [of("wrong_after_a_wide_row")])
    wrong = {case for (_, case), result in found.items() if result.measurement.violations}
    assert wrong == {FOUR.id}
    assert any(f"{FOUR.id}: " in note and "its answers depend on earlier calls" in note for note in notes)


@pytest.mark.parametrize(("name", "is_found"), [("wrong_in_the_first_process", False), ("wrong_everywhere", True)])
def test_a_trial_is_repeated_whole_and_its_probe_concludes_anew(name, is_found):
    session = Session("interpreter", jobs=1)
    try:
        assert not isinstance(session.load(of(name), ("float32",)), str)
        probed = run_probe(session, ProbeTask(variant=of(name), dtype="float32", probe="determinism", effort="quick"))
        judged = run_probe(session, ProbeTask(variant=of(name), dtype="float32", probe="sizes", effort="quick"))
        notes = session.blames.notes
    finally:
        session.close()
    assert not probed.conclusion.findings
    assert bool(judged.conclusion.findings) is is_found
    assert any("seen once, not again alone" in note for note in notes) is not is_found


def test_a_trial_in_which_softcheck_itself_fails_is_made_again_alone():
    name = of("breaks_softcheck_in_the_first_process")
    session = Session("interpreter", jobs=1)
    try:
        assert not isinstance(session.load(name, ("float32",)), str)
        probed = run_probe(session, ProbeTask(variant=name, dtype="float32", probe="determinism", effort="quick"))
    finally:
        session.close()
    assert probed.conclusion.findings == ()
    assert probed.conclusion.trials == len(probed.labels) > 0
