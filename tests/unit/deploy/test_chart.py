"""The Helm chart: it renders what the overlays build, and its values change what they name."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from cryptography.fernet import Fernet

from deploy.helm import make_chart
from tests.fixtures.require import require
from tests.unit.deploy.kustomize_output import KUSTOMIZE, build, check
from tests.unit.deploy.manifests import documents_of
from tests.unit.deploy.rules import IN_PRODUCTION, faults

Documents = list[Any]

KUBERNETES: Final = ("--kube-version", "1.34.0")
"""A program that was built without a release knows an old version alone."""


def rendered(*values: str, namespace: str = "archon", chart: Path = make_chart.CHART) -> Documents:
    """Returns the manifests of the chart with values as `--set` takes them. Fails the test if Helm fails."""
    settings = [word for value in values for word in ("--set-json", value)]
    command = [str(require("helm")), "template", "archon", str(chart), "--namespace", namespace, *KUBERNETES, *settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [each for each in documents_of(done.stdout) if each]


def by_name(documents: Documents) -> dict[tuple[str, str], Any]:
    found = {(each["kind"], each["metadata"]["name"]): each for each in documents}
    assert len(found) == len(documents)
    return found


@pytest.mark.parametrize("profile", make_chart.PROFILES)
def test_the_chart_renders_what_the_overlay_builds(profile: str) -> None:
    documents = build(KUSTOMIZE / "overlays" / profile)
    expected = by_name([each for each in documents if each["kind"] != "Namespace"])
    assert by_name(rendered(f'profile="{profile}"')) == expected


def test_the_chart_is_made_of_the_overlays_of_today(tmp_path: Path) -> None:
    require("kustomize")
    make_chart.write(tmp_path)
    for folder, other in ((make_chart.CHART, tmp_path), (tmp_path, make_chart.CHART)):
        for file in sorted(each for each in folder.rglob("*") if each.is_file()):
            name = file.relative_to(folder)
            assert (other / name).exists(), f"{name}: run `make chart`"
            assert (other / name).read_text() == file.read_text(), f"{name}: run `make chart`"


def test_the_values_of_four_languages_give_a_role_in_each() -> None:
    values = make_chart.CHART.parent / "polyglot.yaml"
    roles = yaml.safe_load(values.read_text())["roles"]
    found = by_name(rendered(f"roles={json.dumps(roles)}"))
    for role, settings in roles.items():
        spec = found["Deployment", f"archon-{role}"]["spec"]
        [container] = spec["template"]["spec"]["containers"]
        assert container["image"] == settings["image"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["livenessProbe"]["grpc"]
    assert {settings["image"].split(":")[0].rpartition("-")[2] for settings in roles.values()} == {
        path.stem for path in (make_chart.CHART.parents[1] / "images").glob("*.Dockerfile")
    }


def test_another_namespace_is_in_every_manifest() -> None:
    documents = rendered(namespace="mesh-of-a")
    assert {each["metadata"]["namespace"] for each in documents} == {"mesh-of-a"}
    for document in documents:
        check(document)


def test_values_change_what_they_name_and_production_keeps_its_rules() -> None:
    resources = '{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"memory":"2Gi"}}'
    documents = rendered(
        'image={"registry":"registry.example.com/team/","tag":"1.2.3"}',
        'images={"etcd":"mirror.example.com/etcd:v3.6.16"}',
        f'roles={{"designer":{{"replicas":5}},"reviewer":{{"image":"own/reviewer:7","resources":{resources}}}}}',
        'replicas={"orchestrator":3}',
        f'resources={{"orchestrator":{resources}}}',
        'config={"model":"openai/gpt-5"}',
        'storage={"sizes":{"data":"20Gi","backups":"30Gi"},"class":"fast"}',
    )
    for document in documents:
        check(document)
    namespace = [each for each in build(KUSTOMIZE / "overlays" / "production") if each["kind"] == "Namespace"]
    assert faults([*namespace, *documents], IN_PRODUCTION) == []
    found = by_name(documents)
    orchestrator = found["Deployment", "archon-orchestrator"]["spec"]
    assert orchestrator["replicas"] == 3
    [container] = orchestrator["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.com/team/archon-orchestrator:1.2.3"
    assert container["resources"]["limits"] == {"memory": "2Gi"}
    etcd = found["StatefulSet", "archon-etcd"]["spec"]
    assert etcd["template"]["spec"]["containers"][0]["image"] == "mirror.example.com/etcd:v3.6.16"
    assert etcd["volumeClaimTemplates"][0]["spec"]["storageClassName"] == "fast"
    assert found["Deployment", "archon-designer"]["spec"]["replicas"] == 5
    reviewer = found["Deployment", "archon-reviewer"]["spec"]["template"]["spec"]
    assert reviewer["containers"][0]["image"] == "own/reviewer:7"
    assert reviewer["volumes"][0]["secret"]["secretName"] == "archon-reviewer-tls"
    assert "spiffe://archon/ns/default/agent/reviewer" in str(found["Certificate", "archon-reviewer"]["spec"])
    [configuration] = [each for (kind, _), each in found.items() if kind == "ConfigMap" and "model" in each["data"]]
    assert configuration["data"]["model"] == "openai/gpt-5"
    assert configuration["data"]["registry"] == "archon-registry:7101"
    assert configuration["metadata"]["name"] in str(reviewer), "pods are replaced when the configuration changes"


def hook_secret(documents: Documents) -> tuple[dict[str, Any], Any, Any]:
    """Returns the volume with the keys of hooks, the Secret of the chart or None, and the annotations of the pods."""
    found = by_name(documents)
    template = found["Deployment", "archon-orchestrator"]["spec"]["template"]
    [volume] = [each for each in template["spec"]["volumes"] if each["name"] == "hooks"]
    return volume["secret"], found.get(("Secret", "archon-hooks")), template["metadata"].get("annotations")


def test_keys_of_hooks_in_the_values_are_a_secret_that_replaces_pods() -> None:
    keys = [Fernet.generate_key().decode() for _ in range(3)]
    volume, secret, before = hook_secret(rendered(f"hooks={json.dumps({'keys': keys[:2]})}"))
    assert volume == {"secretName": "archon-hooks", "defaultMode": 0o440, "optional": True}
    check(secret)
    assert base64.b64decode(secret["data"]["hooks.key"]).decode().split() == keys[:2], (
        "a line for each, the first first"
    )
    assert secret["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    again = hook_secret(rendered(f"hooks={json.dumps({'keys': keys[:2]})}"))
    assert (again[1], again[2]) == (secret, before), (
        "an upgrade without a change makes no other key, and replaces no pod"
    )
    _, _, after = hook_secret(rendered(f"hooks={json.dumps({'keys': [keys[2], *keys[:2]]})}"))
    assert before != after and not any(key in str(after) for key in keys)


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ('hooks={"existingSecret":"of-a-vault"}', "of-a-vault"),
        ('hooks={"keys":null}', "archon-hooks"),
        ("hooks=null", "archon-hooks"),
    ],
)
def test_a_secret_of_hooks_that_exists_is_named_and_not_made(values: str, name: str) -> None:
    volume, secret, annotations = hook_secret(rendered(values))
    assert (volume["secretName"], secret, annotations) == (name, None, None)


@pytest.mark.parametrize(
    ("hooks", "error"),
    [
        ({"keys": ["short"]}, "is no line of hooks.key"),
        ({"keys": [Fernet.generate_key().decode() + "\n"]}, "is no line of hooks.key"),
        ({"keys": [base64.b64encode(Fernet.generate_key()).decode()]}, "is no line of hooks.key"),
        ({"keys": [Fernet.generate_key().decode()] * 5}, "more than four keys"),
        ({"keys": [Fernet.generate_key().decode()], "existingSecret": "x"}, "not both"),
    ],
)
def test_keys_of_hooks_that_no_orchestrator_could_read_are_refused(hooks: dict[str, Any], error: str) -> None:
    command = [str(require("helm")), "template", "archon", str(make_chart.CHART), *KUBERNETES]
    done = subprocess.run(
        [*command, "--set-json", f"hooks={json.dumps(hooks)}"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0 and error in done.stderr


def test_a_role_that_is_null_is_left_out() -> None:
    names = {name for _, name in by_name(rendered('roles={"planner":null}'))}
    assert "archon-planner" not in names
    assert "archon-designer" in names


def test_an_unknown_profile_is_refused() -> None:
    command = [str(require("helm")), "template", "archon", str(make_chart.CHART), *KUBERNETES, "--set", "profile=prod"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "profile must be production or dev" in done.stderr
