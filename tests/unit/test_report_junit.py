"""JUnit XML: counts that CI systems trust, and escaping that XML demands."""

from xml.etree import ElementTree

from crashsim.campaigns.results import MatrixResult, PropertyResult, RunResult
from crashsim.report.junit import junit_xml
from tests.support.report_samples import finding, matrix, run


def parsed(result: RunResult | MatrixResult) -> ElementTree.Element:
    return ElementTree.fromstring(junit_xml(result))


def test_a_clean_run_has_one_passed_case_a_property() -> None:
    root = parsed(run())

    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("5", "0", "0")
    assert [case.get("name") for case in root.iter("testcase")] == [
        "recoverable",
        "intact",
        "durable",
        "atomic",
        "usable",
    ]
    assert root.find(".//testcase").get("classname") == "git.ext4.none.fsync"  # type: ignore[union-attr]


def test_a_violated_property_fails_with_its_findings() -> None:
    other = finding(property="durable", detail="the promise is gone")
    root = parsed(run(violations={"intact": 3, "durable": 1}, findings=[finding(), other]))

    failures = {case.get("name"): case.find("failure") for case in root.iter("testcase")}
    failed = {name for name, failure in failures.items() if failure is not None}
    assert failed == {"intact", "durable"}
    intact = failures["intact"]
    assert intact is not None
    assert intact.get("message") == "3 of 2,504 states violate it"
    assert "lost: write 7: data of .git/objects/1f/3a9c" in (intact.text or "")
    assert "crashsim repro" in (intact.text or "")
    assert "the promise is gone" not in (intact.text or "")


def test_not_checked_is_skipped_and_inconclusive_is_an_error() -> None:
    cell = run(inconclusive=2)
    cell.properties["usable"] = PropertyResult()
    root = parsed(cell)

    assert (root.get("skipped"), root.get("errors"), root.get("failures")) == ("1", "1", "0")
    error = root.find(".//testcase[@name='conclusive']/error")
    assert error is not None
    assert error.get("message") == "2 checks neither passed nor failed"


def test_a_matrix_is_a_suite_a_cell_and_its_counts_add_up() -> None:
    root = parsed(matrix())

    assert len(root.findall("testsuite")) == 27
    assert root.get("tests") == str(27 * 5)
    assert int(root.get("failures", "")) == len(root.findall(".//failure"))
    assert int(root.get("failures", "")) > 20


def test_texts_that_xml_forbids_are_made_visible() -> None:
    hostile = finding(detail='<x a="b">&\x00\x1b]]>\ud800', explanation=["\ufffe"])
    root = parsed(run(fs='a"<&>\x01', violations={"intact": 1}, findings=[hostile]))

    failure = root.find(".//failure")
    assert failure is not None
    assert r'<x a="b">&\x00\x1b]]>\ud800' in (failure.text or "")
    assert root.find("testsuite").get("name", "").startswith(r'git on a"<&>\x01,')  # type: ignore[union-attr]
