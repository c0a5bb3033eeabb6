"""SARIF 2.1.0, which code scanning reads: a rule for each kind of finding, a result for each finding.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/ defines the format. Findings that a declared defect explains are suppressed, with
the declared reason. A finding's id, which is the same in every run, is its fingerprint; ``primaryLocationLineHash`` is the only one
that GitHub compares.
"""

import json
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from softcheck.contract import FindingKind
from softcheck.explain import of_kind
from softcheck.report import content
from softcheck.report.model import Finding, Report, VariantResult
from softcheck.report.output import PLAIN, Display

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "SRCROOT"


def render(report: Report, _display: Display = PLAIN) -> str:
    """A log with one run. A variant that could not be judged is a notification of the tool, and the run no success."""
    found = [(result, finding) for result in report.variants for finding in result.findings]
    kinds = list(dict.fromkeys(finding.kind for _, finding in found))
    environment = report.environment
    run = {
        "tool": {
            "driver": {
                "name": "softcheck",
                "version": environment.softcheck,
                "semanticVersion": environment.softcheck,
                "rules": [_rule(kind) for kind in kinds],
            }
        },
        "automationDetails": {"id": f"softcheck/{environment.backend}/"},
        "originalUriBaseIds": {_ROOT: {"description": {"text": "the root of the repository"}}},
        "invocations": [_invocation(report)],
        "results": [_result(result, finding, kinds.index(finding.kind)) for result, finding in found],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(kind: FindingKind) -> dict[str, Any]:
    page = of_kind(kind)
    return {
        "id": str(kind),
        "shortDescription": {"text": f"{page.meaning[0].upper()}{page.meaning[1:]}."},
        "help": {"text": page.text(str(kind)), "markdown": page.text(str(kind))},
        "defaultConfiguration": {"level": "error"},
    }


def _result(result: VariantResult, finding: Finding, rule: int) -> dict[str, Any]:
    said = f"{content.subject(result)}, {content.place(finding)}: {content.one_line(finding.message)}"
    found = {
        "ruleId": str(finding.kind),
        "ruleIndex": rule,
        "kind": "fail",
        "level": "error" if finding.known is None else "note",
        "message": {"text": _unlinked(f"{said}\n{content.command(finding.reproduce)}")},
        "locations": [_location(result)],
        "partialFingerprints": {"primaryLocationLineHash": f"{finding.id}:1", "softcheckFinding/v1": finding.id},
        "properties": {
            "variant": content.one_line(result.name),
            "dtype": result.dtype,
            "case": content.one_line(finding.case),
        },
    }
    if finding.known is not None:
        found["suppressions"] = [{"kind": "inSource", "justification": content.one_line(finding.known)}]
    return found


def _location(result: VariantResult) -> dict[str, Any]:
    """The line of the variant's code. Code scanning takes no result without a file and a line, so unknown ones are stood in for."""
    name = {"logicalLocations": [{"fullyQualifiedName": content.one_line(result.name), "kind": "function"}]}
    if result.place is None:
        unknown = {"artifactLocation": {"uri": quote(content.one_line(result.name))}, "region": {"startLine": 1}}
        return {"physicalLocation": unknown, **name}
    path = PurePosixPath(content.one_line(result.place.file, 4096))
    artifact = {"uri": path.as_uri()} if path.is_absolute() else {"uri": quote(str(path)), "uriBaseId": _ROOT}
    return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": result.place.line}}, **name}


def _invocation(report: Report) -> dict[str, Any]:
    errors = [f"{content.subject(row)}: {row.reason}" for row in report.variants if row.verdict == "error"]
    return {
        "executionSuccessful": not (errors or report.errors or report.interrupted),
        "commandLine": content.command(report.environment.command),
        "toolExecutionNotifications": [
            {"level": "error", "message": {"text": _unlinked(content.one_line(text))}}
            for text in (*errors, *report.errors)
        ],
    }


def _unlinked(text: str) -> str:
    """The text without embedded links, ``[words](target)`` (section 3.11.6), which a name or a message could hold."""
    return text.replace("](", "]\\(")
