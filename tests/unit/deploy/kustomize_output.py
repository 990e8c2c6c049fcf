"""The output of kustomize for overlays and components, checked against the schema of each kind."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Final

import jsonschema
import yaml

from tests.fixtures.require import require
from tests.unit.deploy.manifests import ROOT, Manifest, documents_of, validate

KUSTOMIZE: Final = ROOT / "deploy" / "kustomize"
COMPONENTS: Final = KUSTOMIZE / "components"
CRDS: Final = Path(__file__).parent / "crds"
"""Definitions of cert-manager 1.18.2, CloudNativePG 1.27.0, KEDA 2.17.2 and the Gateway API 1.4.1, from their
repositories."""

VERSION: Final = "1.37"
"""The version of Kubernetes whose schemas everything is checked against."""


def render(folder: str, *components: str) -> list[Manifest]:
    """Renders `base` or an overlay such as `overlays/production` with components. Returns every object after checking
    it against the schema of its kind."""
    return deepcopy(_render(folder, components))


@cache
def _render(folder: str, components: tuple[str, ...]) -> list[Manifest]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory).resolve()
        content = {
            "resources": [os.path.relpath(KUSTOMIZE / folder, path)],
            "components": [os.path.relpath(COMPONENTS / name, path) for name in components],
        }
        (path / "kustomization.yaml").write_text(yaml.safe_dump(content))
        documents = build(path)
    for document in documents:
        _check_once(json.dumps(document, sort_keys=True))
    return documents


@cache
def _check_once(document: str) -> None:
    check(json.loads(document))


def build(folder: Path) -> list[Manifest]:
    """Runs kustomize. Fails the test if it fails, or warns."""
    process = subprocess.run([require("kustomize"), "build", folder], capture_output=True, text=True, timeout=60)
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    return documents_of(process.stdout)


def check(document: Manifest) -> None:
    """Checks an object against the schema of its kind. Raises Invalid or ValidationError, for unknown fields too."""
    schema = custom_schemas().get((document["apiVersion"], document["kind"]))
    if schema is None:
        validate(document, VERSION)
    else:
        jsonschema.validate(document, schema)


@cache
def custom_schemas() -> dict[tuple[str, str], dict[str, Any]]:
    """Returns the schemas of the kinds of operators by API version and kind; they refuse unknown fields."""
    schemas = {}
    for path in CRDS.glob("*.yaml"):
        definition = documents_of(path.read_text())[0]["spec"]
        for version in definition["versions"]:
            schema = _closed(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            schemas[f"{definition['group']}/{version['name']}", definition["names"]["kind"]] = schema
    return schemas


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns a schema that refuses fields that it does not name, in Kubernetes' form of integers or strings."""
    result = {key: value for key, value in schema.items() if key not in ("default", "format", "pattern")}
    if result.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    if "properties" in schema:
        result["properties"] = {name: _closed(value) for name, value in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            result["additionalProperties"] = False
    if isinstance(schema.get("items"), dict):
        result["items"] = _closed(schema["items"])
    return result


def of_kind(documents: list[Manifest], *kinds: str) -> dict[str, Manifest]:
    """Returns the objects of some kinds by name."""
    return {document["metadata"]["name"]: document for document in documents if document["kind"] in kinds}


def templates(documents: list[Manifest]) -> dict[str, Manifest]:
    """Returns the pod templates of all workloads by the workload's name."""
    found = {}
    for name, workload in of_kind(documents, "Deployment", "StatefulSet").items():
        found[name] = workload["spec"]["template"]
    for name, job in of_kind(documents, "CronJob").items():
        found[name] = job["spec"]["jobTemplate"]["spec"]["template"]
    return found


def variables(container: Manifest) -> dict[str, Any]:
    """Returns the variables of a container: their value, or where it comes from."""
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container.get("env", [])}


def config(documents: list[Manifest]) -> dict[str, str]:
    """Returns the values of the mesh's ConfigMap."""
    [values] = [value for name, value in of_kind(documents, "ConfigMap").items() if "collector" not in name]
    return dict(values["data"])
