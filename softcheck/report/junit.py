"""JUnit XML, which GitLab, Jenkins and others read: a test case for each variant and dtype.

A finding each would make a suite whose tests come and go; a variant in a dtype is there in every run, so that a CI system can say
since when it fails. The test's name says it all, because GitLab shows nothing else in its list.
"""

import re
import xml.etree.ElementTree as ET
from collections import Counter

from softcheck.report import content
from softcheck.report.content import FindingGroup
from softcheck.report.model import Report, VariantResult
from softcheck.report.output import PLAIN, Display
from softcheck.report.table import group_lines

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 (section 2.2) can't hold, escaped or not."""


def render(report: Report, _display: Display = PLAIN) -> str:
    """``fail`` is a failure, ``error`` an error, ``unsupported`` a skipped test; what could not be run at all is an error too."""
    suite = ET.Element("testsuite", name="softcheck", time=f"{report.seconds:.3f}")
    properties = ET.SubElement(suite, "properties")
    for line in content.heading(report):
        ET.SubElement(properties, "property", name="softcheck", value=_text(line))
    groups = content.finding_groups(report, known=False)
    for result in report.variants:
        _case(suite, result, [group for group in groups if group.result is result])
    for error in report.errors:
        case = ET.SubElement(suite, "testcase", classname="softcheck", name=_text(content.one_line(error)), time="0")
        ET.SubElement(case, "error", message=_text(content.one_line(error)))
    counted = Counter(child.tag for case in suite.iter("testcase") for child in case)
    counts = {"tests": len(suite.findall("testcase")), "failures": counted["failure"], "errors": counted["error"]}
    suite.attrib |= {name: str(number) for name, number in {**counts, "skipped": counted["skipped"]}.items()}
    root = ET.Element("testsuites", {name: str(number) for name, number in counts.items()}, name="softcheck")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _case(suite: ET.Element, result: VariantResult, groups: list[FindingGroup]) -> None:
    where = {} if result.place is None else {"file": result.place.file, "line": str(result.place.line)}
    attributes = {"classname": f"softcheck.{result.operation}", "name": content.subject(result), **where}
    case = ET.SubElement(suite, "testcase", {name: _text(value) for name, value in attributes.items()})
    case.set("time", f"{result.seconds:.3f}")
    reason = content.one_line(result.reason or "")
    if groups:
        lines = [line for group in groups for line in group_lines(group)]
        failure = ET.SubElement(case, "failure", type="softcheck", message=_text(groups[0].extent))
        failure.text = _text("\n".join(lines))
    elif result.verdict == "error":
        ET.SubElement(case, "error", message=_text(reason))
    elif result.verdict == "unsupported":
        ET.SubElement(case, "skipped", message=_text(reason))
    defects = dict.fromkeys(f.known for f in result.findings if f.known is not None)
    if defects:
        said = ET.SubElement(case, "system-out")
        said.text = _text("\n".join(f"declared defect: {content.one_line(reason)}" for reason in defects))


def _text(text: str) -> str:
    """The text with the escapes of Python in place of what XML can't hold."""
    return _NOT_IN_XML.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
