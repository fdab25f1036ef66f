"""What is told of one stop."""

from __future__ import annotations

from tokenweir.stack.tour.step import Step, differences_of


def test_a_broken_promise_is_a_difference() -> None:
    """What was kept is not told."""
    step = Step("ask", "Ask", "An app asks.")

    assert step.promise("it is late", kept=True)
    assert not step.promise("it is wrong", kept=False)
    assert step.differences == ["it is wrong"]
    assert differences_of([step]) == ["Ask: it is wrong"]


def test_the_document_tells_the_state() -> None:
    """For programs a stop is ok, differs, or was skipped, with its figures."""
    fine = Step("ask", "Ask", "", figures={"status": 200})
    wrong = Step("ask", "Ask", "", differences=["it is wrong"])
    left = Step("wait", "Wait", "", skipped="too long")

    assert fine.document() == {
        "step": "ask",
        "state": "ok",
        "status": 200,
        "differences": [],
    }
    assert wrong.document()["state"] == "differs"
    assert left.document()["state"] == "skipped"
    assert left.document()["skipped"] == "too long"
