"""The OpenAPI document is that of the contract, and valid."""

from __future__ import annotations

import json

from google.protobuf import json_format
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon_services.gateway.openapi.room import FILE
from tests.unit.docs import openapi_page


def test_the_document_is_written_from_the_contract() -> None:
    assert FILE.read_text() == openapi_page.text(), "run: python -m tests.unit.docs.openapi_page"


def test_the_document_is_valid_and_describes_all() -> None:
    document = json.loads(FILE.read_text())
    OpenAPIV31SpecValidator(document).validate()
    operations = [each for path in document["paths"].values() for each in path.values()]
    assert all(operation["summary"] != "." for operation in operations)
    assert "SubmitRun" in FILE.read_text()


def test_messages_match_their_schemas() -> None:
    document = json.loads(FILE.read_text())
    message = pb.SubmitRunRequest(request_id="r", roles=["a"], metadata={"k": "v"})
    message.goal.add(text="x")
    message.timeout.seconds = 3
    root = {"$ref": "#/components/schemas/archon.api.orchestrator.v1.SubmitRunRequest", **document}
    validator = Draft202012Validator(root)
    assert list(validator.iter_errors(json_format.MessageToDict(message))) == []
    assert list(validator.iter_errors({"goal": "no list"})) != []
