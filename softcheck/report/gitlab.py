"""Code quality of GitLab: a list of what a merge request brings and what it fixes, one entry for each cause.

https://docs.gitlab.com/ci/testing/code_quality/ lists the fields. GitLab compares fingerprints between branches; here each is the
id of the finding that shows the cause best.
"""

import json
from pathlib import PurePosixPath

from softcheck.report import content
from softcheck.report.model import Report
from softcheck.report.output import PLAIN, Display


def render(report: Report, _display: Display = PLAIN) -> str:
    """Causes of findings are ``major``; declared defects are ``info``. Code outside of the repository has no entry."""
    groups = [(group, known) for known in (False, True) for group in content.finding_groups(report, known=known)]
    entries = [
        {
            "description": f"{content.subject(group.result)}: {group.extent}",
            "check_name": str(group.first.kind),
            "fingerprint": group.first.id,
            "severity": "info" if known else "major",
            "location": {"path": content.one_line(place.file, 4096), "lines": {"begin": place.line}},
        }
        for group, known in groups
        if (place := group.result.place) is not None and not PurePosixPath(place.file).is_absolute()
    ]
    return json.dumps(entries, indent=2) + "\n"
