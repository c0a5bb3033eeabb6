"""Lines that any probe's calls ran count together, against the lines that one probe knows."""

from softcheck.probes.outcome import Conclusion, coverage_of
from softcheck.variants.coverage import CodeLine

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
