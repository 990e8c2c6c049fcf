"""What kustomize makes of the base, and of the overlays that the README shows."""

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
    """Every object, valid by its schema."""
    done = subprocess.run([require("kustomize"), "build", folder], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    documents = list(yaml.safe_load_all(done.stdout))
    for one in documents:
        validate(one, "1.37")
    return documents


def overlay(folder: Path, extract: str) -> list[dict[str, Any]]:
    """The base under what an extract of the README adds."""
    start = f"resources: [{os.path.relpath(BASE, folder.resolve())}]\n"
    (folder / "kustomization.yaml").write_text(start + re.sub(r"^resources:.*$", "", extract, flags=re.MULTILINE))
    return rendered(folder)


def extract(words: str) -> str:
    [found] = [one for one in re.findall(r"```yaml\n(.*?)```", README.read_text(), flags=re.DOTALL) if words in one]
    return str(found)


def config(documents: list[dict[str, Any]]) -> dict[str, str]:
    [found] = [one for one in documents if one["kind"] == "ConfigMap"]
    return dict(found["data"])


def images(documents: list[dict[str, Any]]) -> set[str]:
    return {
        inside["image"]
        for one in documents
        if one["kind"] in ("Deployment", "StatefulSet")
        for inside in one["spec"]["template"]["spec"]["containers"]
    }


def test_the_base_is_rendered_with_versions_and_the_names_of_its_values() -> None:
    documents = rendered(BASE)
    assert all(":" in image for image in images(documents))
    assert {one["metadata"].get("namespace", "archon") for one in documents} == {"archon"}
    # A hash of the values is part of their name, so that a change of them is rolled out.
    [values] = [one["metadata"]["name"] for one in documents if one["kind"] == "ConfigMap"]
    assert re.fullmatch(r"archon-[0-9a-z]{10}", values)
    asked = re.findall(r"configMapKeyRef:\n\s+key: \S+\n\s+name: (\S+)", yaml.safe_dump(documents))
    assert set(asked) == {values}


def test_the_readmes_registry_is_taken_for_the_image(tmp_path: Path) -> None:
    assert "registry.example.com/archon-registry:0.1.0" in images(overlay(tmp_path, extract("newName")))


def test_the_readmes_model_goes_over_the_bases_and_the_rest_stays(tmp_path: Path) -> None:
    before, after = config(rendered(BASE)), config(overlay(tmp_path, extract("literals: [model=")))
    assert after == {**before, "model": "openai/gpt-5-mini"}


def test_the_readmes_own_etcd_leaves_ours_out(tmp_path: Path) -> None:
    documents = overlay(tmp_path, extract("$patch: delete"))
    assert config(documents)["etcd"].startswith("10.0.0.1:2379,")
    assert not any(one["metadata"]["name"] == "archon-etcd" for one in documents)
    assert len([one for one in documents if one["kind"] in ("Deployment", "StatefulSet")]) == 7


def test_the_readmes_several_orchestrators_share_a_postgres_and_know_each_others_addresses(tmp_path: Path) -> None:
    documents = overlay(tmp_path, extract("ARCHON_ADVERTISE"))
    [found] = [one for one in documents if one["kind"] == "StatefulSet" and "orchestrator" in one["metadata"]["name"]]
    assert found["spec"]["replicas"] == 3
    [container] = found["spec"]["template"]["spec"]["containers"]
    told = {one["name"]: one for one in container["env"]}
    assert told["ARCHON_JOURNAL"] == {
        "name": "ARCHON_JOURNAL",
        "valueFrom": {"secretKeyRef": {"name": "archon-journal", "key": "dsn"}},
    }
    assert told["ARCHON_ADVERTISE"]["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert "ARCHON_REGISTRY" in told
