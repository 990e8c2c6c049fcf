"""Secret answers: only the question that asked can read them."""

from __future__ import annotations

import json

import pytest

from archon.errors import InvalidArgument
from archon.secret_answers import MAX_SECRET, PREFIX, PUBLIC_KEY, SecretQuestion, is_secret, seal


def test_the_question_reads_its_answer() -> None:
    question = SecretQuestion()
    sealed = seal(question.schema_json, "hunter2 \u00e9")
    assert sealed.startswith(PREFIX)
    assert "hunter2" not in sealed
    assert question.open(sealed) == "hunter2 \u00e9"


def test_equal_answers_look_different() -> None:
    schema = SecretQuestion().schema_json
    assert seal(schema, "hunter2") != seal(schema, "hunter2")


@pytest.mark.parametrize("answer", ["hunter2", PREFIX, f"{PREFIX}!", f"{PREFIX}AAAA", ""])
def test_an_answer_that_is_not_encrypted_is_refused_unseen(answer: str) -> None:
    with pytest.raises(InvalidArgument, match="was not encrypted for this question") as refused:
        SecretQuestion().open(answer)
    assert "hunter2" not in str(refused.value)


def test_the_answer_to_another_question_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        SecretQuestion().open(seal(SecretQuestion().schema_json, "hunter2"))


@pytest.mark.parametrize("answer", ["", "x" * (MAX_SECRET + 1)])
def test_an_answer_of_the_wrong_size_is_refused(answer: str) -> None:
    with pytest.raises(InvalidArgument, match="a secret answer has 1 to"):
        seal(SecretQuestion().schema_json, answer)


@pytest.mark.parametrize("schema", ["", "{", "[]", '{"type": "string"}', json.dumps({PUBLIC_KEY: "AAAA"})])
def test_a_schema_without_a_valid_key_is_refused(schema: str) -> None:
    with pytest.raises(InvalidArgument, match="no valid public key"):
        seal(schema, "hunter2")


def test_a_schema_tells_whether_the_answer_is_secret() -> None:
    assert is_secret(SecretQuestion().schema_json)
    assert not is_secret('{"type": "string"}')
    assert not is_secret("")
