"""Annotations, SARIF and JUnit: read back as their readers read them, for any name and message."""

import json
import re
import xml.etree.ElementTree as ET
from urllib.parse import unquote, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_reports import FAILING, INTERPRETED, KNOWN, PASSING, finding

from softcheck.contract import FindingKind
from softcheck.report import content, formats
from softcheck.report.compare import Tolerances, compare, render_github
from softcheck.report.model import Cause
from softcheck.variants.place import SourcePlace

COMMANDS = {"error", "warning", "notice"}


def parsed(line):
    """A workflow command by the runner's rules: level, properties and message; None for a line that is none."""
    found = re.fullmatch(r"\s*::([a-z-]+)(?: ([^\n]*?))?::(.*)", line)
    if found is None or found[1] not in COMMANDS:
        return None
    properties = {}
    for each in filter(None, (found[2] or "").strip().split(",")):
        name, _, value = each.partition("=")
        properties[name] = unescaped(value, {"%3A": ":", "%2C": ","})
    return found[1], properties, unescaped(found[3], {})


def unescaped(text, more):
    for escape, character in {"%0D": "\r", "%0A": "\n", **more, "%25": "%"}.items():
        text = text.replace(escape, character)
    return text


def annotations(report):
    return [parsed(line) for line in formats.render(report, "github").splitlines()]


def with_variants(*rows, **more):
    return msgspec.structs.replace(INTERPRETED, variants=rows, **more)


def test_a_cause_is_one_error_at_the_line_of_the_code_whatever_the_dtypes():
    cause = Cause(text="wrong at every width: 100%", mend="mask", findings=tuple(f.id for f in FAILING.findings))
    rows = [msgspec.structs.replace(FAILING, dtype=dtype, causes=(cause,)) for dtype in ("float16", "float32")]
    (level, properties, message), notice = annotations(with_variants(*rows))
    assert level == "error"
    assert properties == {
        "file": "kernels/my_kernels.py",
        "line": "17",
        "title": "my_kernels.py:softmax (float16, float32): fail",
    }
    first, shown, command, *_ = message.splitlines()
    assert first.startswith("wrong at every width: 100% (ulp_exceeds_bound")
    assert shown == FAILING.findings[0].message
    assert command == FAILING.findings[0].reproduce
    assert notice == ("notice", {"title": "softcheck"}, content.summary(with_variants(*rows)))


def test_nothing_but_a_notice_is_said_of_what_is_right_declared_or_unsupported():
    rows = [r for r in INTERPRETED.variants if r.verdict in {"pass", "known", "unsupported"}]
    assert len(rows) == 3
    assert [found[0] for found in annotations(with_variants(*rows))] == ["notice"]


def test_what_could_not_be_judged_or_run_is_an_error():
    broken = next(r for r in INTERPRETED.variants if r.verdict == "error")
    found = annotations(with_variants(broken, errors=("case x can't be made",)))
    assert [level for level, _, _ in found] == ["error", "error", "notice"]
    assert [message for _, _, message in found[:2]] == [broken.reason, "case x can't be made"]


def test_an_annotation_names_no_file_outside_of_the_repository():
    outside = msgspec.structs.replace(FAILING, place=SourcePlace("/tmp/kernels.py", 3))
    assert "file" not in annotations(with_variants(outside))[0][1]


def test_a_regression_is_an_error_and_what_is_ambiguous_a_warning():
    worse = msgspec.structs.replace(FAILING, name=PASSING.name)
    found = compare(with_variants(PASSING), with_variants(worse), Tolerances())
    lines = [parsed(line) for line in render_github(found).splitlines()]
    assert [level for level, _, _ in lines] == ["error"] * len(found.regressions) + ["notice"]
    assert lines[0][1] == {"file": "kernels/my_kernels.py", "line": "17", "title": "one_block float16: regression"}
    ambiguous = msgspec.structs.replace(found, changes=(msgspec.structs.replace(found.changes[0], word="AMBIGUOUS"),))
    assert parsed(render_github(ambiguous).splitlines()[0])[0] == "warning"


# The property sets of sections 3.14 to 3.58 of SARIF 2.1.0, as far as they are used; a reader refuses any other name.
SARIF = {
    "log": {"$schema", "version", "runs"},
    "run": {"tool", "automationDetails", "originalUriBaseIds", "invocations", "results"},
    "driver": {"name", "version", "semanticVersion", "rules"},
    "rule": {"id", "shortDescription", "help", "defaultConfiguration"},
    "result": {"ruleId", "ruleIndex", "kind", "level", "message", "locations", "partialFingerprints", "properties"},
}


def sarif(report):
    log = json.loads(formats.render(report, "sarif"))
    assert set(log) == SARIF["log"]
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert set(run) == SARIF["run"]
    driver = run["tool"]["driver"]
    assert set(driver) == SARIF["driver"]
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    assert all(set(rule) == SARIF["rule"] and rule["shortDescription"]["text"] for rule in driver["rules"])
    for result in run["results"]:
        assert set(result) - {"suppressions"} == SARIF["result"]
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in {"error", "note"}
        (place,) = result["locations"]
        uri = urlsplit(place["physicalLocation"]["artifactLocation"]["uri"])
        assert uri.scheme in {"", "file"}
        assert place["physicalLocation"]["region"]["startLine"] >= 1
        assert ".." not in uri.path.split("/")
    return run


def test_each_finding_is_a_result_with_its_id_and_its_line():
    run = sarif(INTERPRETED)
    findings = [f for row in INTERPRETED.variants for f in row.findings]
    assert [r["partialFingerprints"]["softcheckFinding/v1"] for r in run["results"]] == [f.id for f in findings]
    assert len({r["partialFingerprints"]["primaryLocationLineHash"] for r in run["results"]}) == len(findings)
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "kernels/my_kernels.py", "uriBaseId": "SRCROOT"},
        "region": {"startLine": 17},
    }
    assert place["artifactLocation"]["uriBaseId"] in run["originalUriBaseIds"]


def test_declared_defects_are_suppressed_with_their_reason_and_nothing_else_is():
    for result, found in zip(
        (f for row in INTERPRETED.variants for f in row.findings), sarif(INTERPRETED)["results"], strict=True
    ):
        assert (result.known is not None) == ("suppressions" in found) == (found["level"] == "note")
        if result.known is not None:
            assert found["suppressions"] == [{"kind": "inSource", "justification": result.known}]


def test_a_variant_in_error_makes_the_run_no_success():
    broken = next(r for r in INTERPRETED.variants if r.verdict == "error")
    (invocation,) = sarif(INTERPRETED)["invocations"]
    assert not invocation["executionSuccessful"]
    assert [n["message"]["text"] for n in invocation["toolExecutionNotifications"]] == [
        f"hybrid float16: {broken.reason}"
    ]
    assert sarif(with_variants(FAILING, KNOWN))["invocations"][0]["executionSuccessful"]


def test_a_message_holds_no_link():
    hostile = msgspec.structs.replace(FAILING, findings=(finding(FindingKind.RAISED, "a/b", "see [here](http://x)"),))
    text = sarif(with_variants(hostile))["results"][0]["message"]["text"]
    assert not re.search(r"\[[^\]]*\]\(", text)


def suite(report):
    return ET.fromstring(formats.render(report, "junit"))


def test_each_variant_and_dtype_is_a_test_case_and_every_verdict_has_its_element():
    root = suite(INTERPRETED)
    cases = root.findall("testsuite/testcase")
    assert [case.get("name") for case in cases] == [content.subject(row) for row in INTERPRETED.variants]
    elements = {"pass": None, "known": None, "fail": "failure", "error": "error", "unsupported": "skipped"}
    for case, row in zip(cases, INTERPRETED.variants, strict=True):
        shown = {child.tag for child in case} - {"system-out"}
        assert shown == {elements[row.verdict]} - {None}
    (inner,) = root
    for node in (root, inner):
        assert [node.get(name) for name in ("tests", "failures", "errors")] == ["5", "1", "1"]
    assert inner.get("skipped") == "1"
    assert (cases[1].get("file"), cases[1].get("line")) == ("kernels/my_kernels.py", "17")


def test_a_failure_tells_causes_and_commands_and_a_declared_defect_its_reason():
    cases = suite(INTERPRETED).findall("testsuite/testcase")
    text = cases[1].find("failure").text
    assert FAILING.findings[0].reproduce in text
    assert "812.4 ULP where at most 0.601 is allowed" in text
    assert "masked lanes hold undefined values" in cases[2].find("system-out").text


def test_what_could_not_be_run_is_an_error_of_the_suite():
    root = suite(with_variants(PASSING, errors=("case x can't be made",)))
    assert (root.get("tests"), root.get("errors")) == ("2", "1")


# Commands, properties, markup, entities, line ends, control characters, noncharacters and bytes of a name that is no UTF-8.
PIECES = ["::error::", "::", ",", "%0A", "%", "\r", "\n", "]]>", "<", "&", '"', "\x00", "\x1b[31m", "\uffff", "\ufffe"]
TEXTS = st.lists(st.sampled_from([*PIECES, "\udcff", "](x)", "../", "a", " ", "=", "line=9"]), min_size=1).map("".join)


@pytest.mark.parametrize("name", ["github", "sarif", "junit", "gitlab"])
@given(TEXTS, TEXTS, TEXTS)
def test_no_name_file_or_message_breaks_a_format(name, hostile, message, file):
    found = msgspec.structs.replace(FAILING.findings[0], case=hostile, message=message, reproduce=message)
    row = msgspec.structs.replace(
        FAILING, name=hostile, findings=(found,), causes=(), place=SourcePlace(file.replace("../", "b"), 7)
    )
    report = with_variants(row, errors=(message,))
    text = formats.render(report, name)
    text.encode()
    if name == "github":
        lines = text.splitlines()
        assert lines == text.split("\n")[:-1]
        first, error, notice = map(parsed, lines)
        assert (first[0], error[0], notice[0]) == ("error", "error", "notice")
        assert set(first[1]) <= {"file", "line", "title"}
        assert first[1].get("line", "7") == "7"
        assert first[1]["title"] == f"{content.one_line(hostile)} (float16): fail"
        assert content.one_line(message) in first[2]
    elif name == "sarif":
        (result,) = sarif(report)["results"]
        assert result["properties"]["variant"] == content.one_line(hostile)
    elif name == "gitlab":
        (entry,) = json.loads(text)
        assert entry["description"].startswith(f"{content.one_line(hostile)} float16: ")
    else:
        case, error = suite(report).findall("testsuite/testcase")
        assert case.get("line") == "7"
        assert {child.tag for child in case} == {"failure"}
        assert {child.tag for child in error} == {"error"}


def test_a_file_keeps_its_name_in_a_uri():
    row = msgspec.structs.replace(FAILING, place=SourcePlace("a folder/ß#1?.py", 7))
    uri = sarif(with_variants(row))["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert unquote(urlsplit(uri).path) == "a folder/ß#1?.py"


def test_code_quality_has_an_entry_for_each_cause_in_the_repository_and_tells_defects_apart():
    outside = msgspec.structs.replace(FAILING, name="outside", place=SourcePlace("/tmp/kernels.py", 3))
    found = json.loads(formats.render(with_variants(FAILING, outside, PASSING), "gitlab"))
    groups = content.finding_groups(with_variants(FAILING), known=False)
    severities = [entry["severity"] for entry in found]
    assert severities == ["major"] * len(groups) + ["info"]
    assert len({entry["fingerprint"] for entry in found}) == len(found)
    assert all(entry["location"] == {"path": "kernels/my_kernels.py", "lines": {"begin": 17}} for entry in found)
    assert groups[0].extent in found[0]["description"]
