"""The output of kustomize for the base, and for the overlays in the README."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from archon.principal import Kind
from archon.security.spiffe import SpiffeId
from tests.fixtures.require import require
from tests.unit.deploy.kustomize_output import COMPONENTS, KUSTOMIZE, build, check, of_kind
from tests.unit.deploy.manifests import BASE, ROOT, documents_of, validate
from tests.unit.deploy.rules import IN_PRODUCTION, faults

README = ROOT / "deploy" / "README.md"


def rendered(folder: Path) -> list[dict[str, Any]]:
    """Renders a folder; returns every object after checking it against its schema."""
    process = subprocess.run([require("kustomize"), "build", folder], capture_output=True, text=True, timeout=60)
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    documents = documents_of(process.stdout)
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
    assert len([document for document in documents if document["kind"] in ("Deployment", "StatefulSet")]) == 9


def overlaid(folder: Path, words: str, *, start: str = "") -> list[dict[str, Any]]:
    """Renders an overlay of the README on top of production; `start` completes one that names no resources."""
    kustomize = os.path.relpath(KUSTOMIZE, folder.resolve())
    (folder / "kustomization.yaml").write_text(start + extract(words).replace("../", f"{kustomize}/"))
    return build(folder)


def test_the_readmes_overlay_is_fit_for_production(tmp_path: Path) -> None:
    documents = overlaid(tmp_path, "[../components/tls-authority, ")
    assert faults(documents, IN_PRODUCTION) == []
    assert {"Cluster", "ScaledObject", "Issuer"} <= {document["kind"] for document in documents}


def test_the_readmes_entry_point_is_fit_for_production(tmp_path: Path) -> None:
    documents = overlaid(tmp_path, "[../components/openid, ../components/ingress-nginx]")
    assert faults(documents, IN_PRODUCTION) == []
    assert "Ingress" in {document["kind"] for document in documents}


def test_the_readmes_prometheus_is_asked_by_every_scaler(tmp_path: Path) -> None:
    start = "resources: [../overlays/production]\ncomponents: [../components/autoscaling]\n"
    kustomize = os.path.relpath(KUSTOMIZE, tmp_path.resolve())
    documents = overlaid(tmp_path, "serverAddress", start=start.replace("../", f"{kustomize}/"))
    scaled = of_kind(documents, "ScaledObject").values()
    addresses = {trigger["metadata"]["serverAddress"] for each in scaled for trigger in each["spec"]["triggers"]}
    assert addresses == {"http://prometheus.example.com:9090"}


def test_the_readmes_certificate_is_of_a_person() -> None:
    certificate = yaml.safe_load(extract("operator/alice"))
    check(certificate)
    identity = SpiffeId.parse(certificate["spec"]["uris"][0])
    assert (identity.kind, identity.name) == (Kind.OPERATOR, certificate["spec"]["commonName"])
    assert certificate["spec"]["dnsNames"] == [identity.dns_name]


def test_the_readme_lists_every_component() -> None:
    table = re.findall(r"^\| `([a-z-]+)` \| .* \| (yes|add it)", README.read_text(), flags=re.MULTILINE)
    assert {name for name, _ in table} == {path.name for path in COMPONENTS.iterdir()}
    production = yaml.safe_load((KUSTOMIZE / "overlays" / "production" / "kustomization.yaml").read_text())
    contained = [Path(path).name for path in production["components"]]
    assert sorted(name for name, where in table if where == "yes") == sorted(contained)
    assert contained[-1] == "tls"
