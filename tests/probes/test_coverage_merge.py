"""Lines that any probe's calls ran count together, against the lines that one probe knows."""

import msgspec

from softcheck.probes.outcome import Conclusion, coverage_of
from softcheck.report.model import VariantResult
from softcheck.report.notes import never_run
from softcheck.variants.coverage import Branch, CodeLine

PASSING = VariantResult(name="right", dtype="float32", verdict="pass")
CODE = tuple(CodeLine("k.py", line, "if n == 1" if line > 2 else "def softmax") for line in (1, 2, 3, 4))


def test_lines_of_all_probes_count_together():
    one = Conclusion(code=CODE, lines=(("k.py", 1), ("k.py", 2)))
    other = Conclusion(lines=(("k.py", 3), ("elsewhere.py", 4)), counts_all_calls=True)
    found = coverage_of([other, one])
    assert (found.lines, found.run, found.never) == (4, 3, ("line 4 of k.py: `if n == 1`",))
    assert found.of_all_calls
    assert not coverage_of([one]).of_all_calls
    assert coverage_of([one]).percent == 50.0


def test_without_known_code_there_is_no_coverage():
    assert coverage_of([Conclusion(lines=(("k.py", 1),))]) is None


def test_ways_on_from_conditions_count_together_with_lines_of_all_probes():
    branches = tuple(Branch("k.py", (line, line), (line + 1, line + 1), None, f"if n == {line}") for line in (1, 3))
    regimes = Conclusion(code=CODE, branches=branches, lines=(("k.py", 1), ("k.py", 2)), arcs=(("k.py", 1, 2),))
    other = Conclusion(lines=(("k.py", 3),), arcs=(("k.py", 3, 0),))
    found = coverage_of([regimes, other])
    assert (found.conditions, found.both_ways) == (2, 0)
    assert found.one_sided == ("`if n == 1` at line 1 of k.py was never false",)
    (words,) = never_run([msgspec.structs.replace(PASSING, name=name, coverage=found) for name in "abcde"])
    assert "a 3 of 4, b 3 of 4, c 3 of 4 and 2 more variants" in words
    assert len(words) < 160
    whole = coverage_of([regimes, other, Conclusion(lines=(("k.py", 4),), arcs=(("k.py", 1, 3),))])
    assert (whole.both_ways, whole.never, whole.one_sided) == (2, (), ())
    assert never_run([msgspec.structs.replace(PASSING, coverage=whole), PASSING]) == []
