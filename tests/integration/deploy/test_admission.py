"""Overlays are admitted by a real API server, which enforces Pod Security `restricted` for their pods."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.integration.deploy.api_server import ApiServer, api_server
from tests.unit.deploy.kustomize_output import CRDS, render, templates
from tests.unit.deploy.manifests import Manifest

pytestmark = pytest.mark.slow

EVERYTHING = ("cloudnative-pg", "weaviate", "autoscaling", "tls-authority")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with api_server(tmp_path_factory.mktemp("kubernetes")) as running:
        definitions = [yaml.safe_load(path.read_text()) for path in CRDS.glob("*.yaml")]
        applied = running.kubectl("apply", "--server-side", "-f", "-", documents=definitions)
        assert applied.returncode == 0, applied.stderr
        for definition in definitions:
            name = definition["metadata"]["name"]
            waited = running.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=60s")
            assert waited.returncode == 0, waited.stderr
        yield running


def pods(documents: list[Manifest]) -> list[Manifest]:
    """Returns a pod of each template, as its controller makes it."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-0", "namespace": "archon", "labels": template["metadata"]["labels"]},
            "spec": {
                **template["spec"],
                "volumes": [
                    *template["spec"].get("volumes", []),
                    *({"name": claim, "emptyDir": {}} for claim in _unnamed(template)),
                ],
            },
        }
        for name, template in templates(documents).items()
    ]


def _unnamed(template: Manifest) -> set[str]:
    """Returns the volumes that a StatefulSet adds by its claims."""
    spec = template["spec"]
    mounted = {mount["name"] for container in spec["containers"] for mount in container.get("volumeMounts", [])}
    return mounted - {volume["name"] for volume in spec.get("volumes", [])}


@pytest.mark.parametrize("folder", ["overlays/dev", "overlays/polyglot", "overlays/production"])
def test_an_overlay_is_admitted_with_its_pods(server: ApiServer, folder: str) -> None:
    added = EVERYTHING if folder == "overlays/production" else ()
    documents = render(folder, *added)
    applied = server.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", documents=documents)
    assert applied.returncode == 0, applied.stderr
    assert applied.stdout.count("serverside-applied") == len(documents)
    assert "Warning" not in applied.stderr
    created = server.kubectl("create", "--dry-run=server", "-f", "-", documents=pods(documents))
    assert created.returncode == 0, created.stderr
    assert created.stdout.count("created") == len(templates(documents))


@pytest.mark.parametrize(
    ("field", "value"),
    [("runAsNonRoot", False), ("seccompProfile", {"type": "Unconfined"}), ("runAsUser", 0)],
)
def test_a_pod_with_more_rights_is_refused(server: ApiServer, field: str, value: object) -> None:
    documents = render("base")
    server.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", documents=documents)
    [pod] = [pod for pod in pods(documents) if pod["metadata"]["name"] == "archon-registry-0"]
    pod["spec"]["securityContext"][field] = value
    refused = server.kubectl("create", "--dry-run=server", "-f", "-", documents=[pod])
    assert refused.returncode != 0
    assert "violates PodSecurity" in refused.stderr


def test_an_apply_leaves_the_number_of_an_autoscaler(server: ApiServer) -> None:
    documents = render("overlays/production", "autoscaling")
    apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    assert server.kubectl(*apply, documents=documents).returncode == 0
    name = "deployment/archon-designer"
    scaled = server.kubectl("-n", "archon", "scale", name, "--replicas=7")
    assert scaled.returncode == 0, scaled.stderr
    assert server.kubectl(*apply, documents=documents).returncode == 0
    shown = server.kubectl("-n", "archon", "get", name, "-o", "jsonpath={.spec.replicas}")
    assert shown.stdout == "7"
