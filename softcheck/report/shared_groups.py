"""Groups of findings that several dtypes of a variant share, so that a text shows each once."""

from softcheck.report.content import FindingGroup, finding_groups, one_line
from softcheck.report.model import Report


def shared_groups(report: Report) -> list[tuple[str, list[FindingGroup]]]:
    """Undeclared groups by variant and the dtypes that show them, in words; each stands once, as the first of these dtypes shows it.

    Groups are the same in two dtypes if their causes are in the same words, or if they have no cause and the same kind.
    """
    alike: dict[tuple[str, str], list[FindingGroup]] = {}
    for group in finding_groups(report, known=False):
        words = group.cause.text if group.cause else f"{group.first.kind} {group.noun}"
        alike.setdefault((group.result.name, words), []).append(group)
    shared: dict[str, dict[tuple[str, ...], list[FindingGroup]]] = {}
    for (name, _), groups in alike.items():
        dtypes = tuple(dict.fromkeys(group.result.dtype for group in groups))
        shared.setdefault(name, {}).setdefault(dtypes, []).append(groups[0])
    return [
        (f"{one_line(name)} {one_line(', '.join(dtypes))}{f'; shown in {dtypes[0]}' if dtypes[1:] else ''}", groups)
        for name, of_dtypes in shared.items()
        for dtypes, groups in of_dtypes.items()
    ]
