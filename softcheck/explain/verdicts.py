"""Explanations of the verdicts."""

from softcheck.explain.explanation import Explanation

VERDICTS: dict[str, Explanation] = {
    "pass": Explanation(
        meaning="every case and every trial that was run kept the contract that the variant declares. The figures are of what "
        "was run, and limits stand behind the word holds"
    ),
    "fail": Explanation(
        meaning="a promise was broken; the exit code is 1",
        mend="begin with the first cause of the report, which explains the most findings, and run its command",
        declare="what the report proposes, if that is what the kernel is meant to keep to",
    ),
    "known": Explanation(
        meaning="promises were broken, all of them by defects that the variant declares; the exit code is 0",
        declare="@variant(known_defects=[KnownDefect(kinds=[...], reason=..., cases=[...])])",
    ),
    "unsupported": Explanation(
        meaning="nothing was run: the dtype is not declared, or the kernel needs what this machine does not have. The reason "
        "stands below the table",
        mend="judge it on a GPU, or do what the reason says",
    ),
    "error": Explanation(
        meaning="the variant could not be judged: it does not import, no call of it is known, or the run was interrupted; the exit "
        "code is 2",
        mend="the reason below the table says what was expected; --call says how a function is called",
    ),
}
"""Every verdict."""
