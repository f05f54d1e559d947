"""JUnit XML, as CI systems read it: a suite a cell, a test case a property.

The format has no standard; this keeps to what Jenkins, GitLab and GitHub's actions agree on:
`testsuites/testsuite/testcase` with `failure`, `error` and `skipped`.
"""

from collections.abc import Sequence
from xml.etree import ElementTree

from crashsim.campaigns.nested_result import NESTED_PREFIX
from crashsim.campaigns.results import Finding, MatrixResult, PropertyResult, RunResult
from crashsim.report.nested import inconclusive_checks
from crashsim.report.reproduce import needed_writes, repro_command, write_in_words
from crashsim.report.tables import property_names, run_facts
from crashsim.report.words import counted, printable


def junit_xml(result: RunResult | MatrixResult) -> str:
    """The result as an XML document.

    A violated property is a failure, one that was not checked is skipped, and inconclusive checks
    are an error of a test case of their own: they must neither pass nor look like a violation.
    """
    cells: Sequence[RunResult] = [result] if isinstance(result, RunResult) else result.cells
    root = ElementTree.Element("testsuites", name="crashsim")
    for cell in cells:
        root.append(_suite(cell))
    for count in ("tests", "failures", "errors", "skipped"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    root.set("time", f"{sum(cell.seconds.total for cell in cells):.3f}")
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(cell: RunResult) -> ElementTree.Element:
    name = printable(
        f"{cell.target} on {cell.fs}, core.fsync={cell.fsync}, core.fsyncMethod={cell.method}"
    )
    suite = ElementTree.Element("testsuite", name=name, time=f"{cell.seconds.total:.3f}")
    properties = ElementTree.SubElement(suite, "properties")
    for fact, words in run_facts(cell):
        ElementTree.SubElement(properties, "property", name=fact, value=words)
    for property_name in property_names(cell):
        findings = _findings(cell, property_name, nested=False)
        suite.append(_case(cell, property_name, cell.properties[property_name], findings))
    if cell.nested is not None:
        for property_name, counts in cell.nested.properties.items():
            findings = _findings(cell, property_name, nested=True)
            name = f"{property_name}, recovery cut"
            suite.append(_case(cell, name, counts, findings))
    inconclusive = inconclusive_checks(cell)
    if inconclusive:
        case = _named_case(cell, "conclusive")
        message = f"{counted(inconclusive, 'check')} neither passed nor failed"
        ElementTree.SubElement(case, "error", message=message, type="inconclusive")
        suite.append(case)
    for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(count, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    return suite


def _named_case(cell: RunResult, name: str) -> ElementTree.Element:
    classname = ".".join(
        printable(part).replace(".", "_")
        for part in (cell.target, cell.fs, cell.fsync, cell.method)
    )
    return ElementTree.Element("testcase", classname=classname, name=printable(name))


def _findings(cell: RunResult, name: str, *, nested: bool) -> list[Finding]:
    return [
        finding
        for finding in cell.findings
        if finding.property == name and finding.id.startswith(NESTED_PREFIX) == nested
    ]


def _case(
    cell: RunResult, name: str, result: PropertyResult, findings: Sequence[Finding]
) -> ElementTree.Element:
    case = _named_case(cell, name)
    if result.violations:
        message = f"{result.violations:,} of {counted(result.checked, 'state')} violate it"
        failure = ElementTree.SubElement(case, "failure", message=message, type=printable(name))
        failure.text = "\n\n".join(map(_finding_text, findings)) or message
    elif not result.checked:
        ElementTree.SubElement(case, "skipped", message="not checked")
    return case


def _finding_text(finding: Finding) -> str:
    lines = [
        f"{finding.rule}: {finding.subject}: {finding.detail}",
        *(f"{label}: {write_in_words(finding, write)}" for label, write in needed_writes(finding)),
        *finding.explanation,
        repro_command(finding),
    ]
    return "\n".join(map(printable, lines))
