"""The output of kustomize for the base, and for the overlays in the README."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.fixtures.require import require
from tests.unit.deploy.manifests import BASE, ROOT, validate

README = ROOT / "deploy" / "README.md"


def rendered(folder: Path) -> list[dict[str, Any]]:
    """Renders a folder; returns every object after checking it against its schema."""
    process = subprocess.run([require("kustomize"), "build", folder], capture_output=True, text=True, timeout=60)
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    documents = list(yaml.safe_load_all(process.stdout))
    for document in documents:
        validate(document, "1.37")
    return documents


def overlay(folder: Path, extract: str) -> list[dict[str, Any]]:
    """Renders the base with an overlay from the README."""
    start = f"resources: [{os.path.relpath(BASE, folder.resolve())}]\n"
    (folder / "kustomization.yaml").write_text(start + re.sub(r"^resources:.*$", "", extract, flags=re.MULTILINE))
    return rendered(folder)


def extract(words: str) -> str:
    blocks = re.findall(r"```yaml\n(.*?)```", README.read_text(), flags=re.DOTALL)
    [block] = [block for block in blocks if words in block]
    return str(block)


def config(documents: list[dict[str, Any]]) -> dict[str, str]:
    [config_map] = [document for document in documents if document["kind"] == "ConfigMap"]
    return dict(config_map["data"])


def images(documents: list[dict[str, Any]]) -> set[str]:
    return {
        inside["image"]
        for document in documents
        if document["kind"] in ("Deployment", "StatefulSet")
        for inside in document["spec"]["template"]["spec"]["containers"]
    }


def test_the_base_is_rendered_with_versions_and_value_names() -> None:
    documents = rendered(BASE)
    assert all(":" in image for image in images(documents))
    assert {document["metadata"].get("namespace", "archon") for document in documents} == {"archon"}
    # The name contains a hash of the values, so that a change of the values is rolled out.
    [values] = [document["metadata"]["name"] for document in documents if document["kind"] == "ConfigMap"]
    assert re.fullmatch(r"archon-[0-9a-z]{10}", values)
    referenced = re.findall(r"configMapKeyRef:\n\s+key: \S+\n\s+name: (\S+)", yaml.safe_dump(documents))
    assert set(referenced) == {values}


def test_the_readmes_image_registry_replaces_the_default(tmp_path: Path) -> None:
    assert "registry.example.com/archon-registry:0.1.0" in images(overlay(tmp_path, extract("newName")))


def test_the_readmes_model_changes_only_the_model(tmp_path: Path) -> None:
    before, after = config(rendered(BASE)), config(overlay(tmp_path, extract("literals: [model=")))
    assert after == {**before, "model": "openai/gpt-5-mini"}


def test_the_readmes_external_etcd_removes_the_bases_etcd(tmp_path: Path) -> None:
    documents = overlay(tmp_path, extract("$patch: delete"))
    assert config(documents)["etcd"].startswith("10.0.0.1:2379,")
    assert not any(document["metadata"]["name"] == "archon-etcd" for document in documents)
    assert len([document for document in documents if document["kind"] in ("Deployment", "StatefulSet")]) == 8


def test_the_readmes_orchestrators_share_postgres_and_advertise(tmp_path: Path) -> None:
    documents = overlay(tmp_path, extract("ARCHON_ADVERTISE"))
    sets = [document for document in documents if document["kind"] == "StatefulSet"]
    [orchestrators] = [document for document in sets if "orchestrator" in document["metadata"]["name"]]
    assert orchestrators["spec"]["replicas"] == 3
    [container] = orchestrators["spec"]["template"]["spec"]["containers"]
    variables = {variable["name"]: variable for variable in container["env"]}
    assert variables["ARCHON_JOURNAL"] == {
        "name": "ARCHON_JOURNAL",
        "valueFrom": {"secretKeyRef": {"name": "archon-journal", "key": "dsn"}},
    }
    assert variables["ARCHON_ADVERTISE"]["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert "ARCHON_REGISTRY" in variables
