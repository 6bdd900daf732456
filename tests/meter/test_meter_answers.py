"""Answers and scripts are data: JSON-shaped both ways, and refused with the name of what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_cancelcontract.answers import Answer, Asked, Background, Failure, HeldUntilPressed, Script, Stream, Text, ToolCall, from_dict

ALL: list[Answer] = [
    Text(),
    Text("three words here", tokens_per_s=2.5),
    Stream(7, 3.0),
    ToolCall("sleep 5", tool="Bash", text="Now it sleeps."),
    Failure(529, None, "too much"),
    HeldUntilPressed(ToolCall("true")),
    Background(9, 4.0),
]


@pytest.mark.parametrize("answer", ALL, ids=lambda answer: answer.kind)
def test_an_answer_comes_back_from_json_as_it_was(answer: Answer) -> None:
    assert from_dict(json.loads(json.dumps(answer.as_dict()))) == answer


def test_a_script_comes_back_from_json_as_it_was() -> None:
    assert Script.from_list(json.loads(json.dumps(Script(tuple(ALL)).as_list()))) == Script(tuple(ALL))


def test_the_last_answer_of_a_script_repeats() -> None:
    script = Script((Text("one"), Text("two")))
    assert [script(Asked("anthropic", "m", previous=number)) for number in range(4)] == [Text("one"), *[Text("two")] * 3]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        pytest.param("text", "must be a mapping", id="no mapping"),
        pytest.param({"answer": "song"}, "one of text, stream", id="an unknown kind"),
        pytest.param({"answer": ["text"]}, "one of text, stream", id="a kind that is no word"),
        pytest.param({"answer": "text", "colour": 1}, "has no 'colour'", id="an unknown field"),
        pytest.param({"answer": "tool-call"}, "not complete", id="a missing field"),
        pytest.param({"answer": "text", "text": 3}, "Text.text must be text, got 3", id="a text that is none"),
        pytest.param({"answer": "text", "tokens_per_s": 0}, "above 0, got 0", id="a pace of nothing"),
        pytest.param({"answer": "stream", "tokens": 0}, "from 1 to", id="a stream of nothing"),
        pytest.param({"answer": "stream", "tokens": True}, "from 1 to", id="a count that is none"),
        pytest.param({"answer": "stream", "tokens_per_s": float("inf")}, "finite", id="an endless pace"),
        pytest.param({"answer": "stream", "tokens_per_s": "fast"}, "finite", id="a pace in words"),
        pytest.param({"answer": "failure", "status": 200}, "from 400 to 599", id="a failure that is a success"),
        pytest.param({"answer": "failure", "retry_after_s": -1}, "seconds from 0", id="a wait that is over"),
        pytest.param({"answer": "held-until-pressed", "then": {"answer": "held-until-pressed"}}, "not held itself", id="held twice"),
    ],
)
def test_what_is_no_answer_is_refused_with_the_reason(values: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        from_dict(values)


def test_an_empty_script_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Script(())
