"""The manifests of the kustomize base as they stand in the repository."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[3]
BASE: Final = ROOT / "deploy" / "kustomize" / "base"
DOCKERFILE: Final = ROOT / "deploy" / "Dockerfile"

_schemas: Any = import_module("kubernetes_validate")  # it has no types
Invalid: type[Exception] = _schemas.ValidationError

Manifest = dict[str, Any]


def validate(manifest: Manifest, version: str) -> None:
    """Against the schema that its kind has in this version of Kubernetes. Raises Invalid; unknown fields are."""
    _schemas.validate(manifest, version, strict=True)


def kustomization() -> Manifest:
    """The list of what belongs to the base."""
    content: Manifest = yaml.safe_load((BASE / "kustomization.yaml").read_text())
    return content


def manifests() -> list[Manifest]:
    """Every object of every file."""
    return [
        document
        for path in sorted(BASE.glob("*.yaml"))
        if path.name != "kustomization.yaml"
        for document in yaml.safe_load_all(path.read_text())
    ]


def name_of(manifest: Manifest) -> str:
    """`Deployment/archon-registry`, for the names of tests."""
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def workloads() -> list[Manifest]:
    """What runs pods."""
    return [one for one in manifests() if one["kind"] in ("Deployment", "StatefulSet")]


def ours() -> list[Manifest]:
    """The workloads that run our own images."""
    return [one for one in workloads() if name_of(one) != "StatefulSet/archon-etcd"]


def services() -> dict[str, Manifest]:
    """By name."""
    return {one["metadata"]["name"]: one for one in manifests() if one["kind"] == "Service"}


def pod(workload: Manifest) -> Manifest:
    """Its pods, as they are made."""
    spec: Manifest = workload["spec"]["template"]["spec"]
    return spec


def container(workload: Manifest) -> Manifest:
    """Its only container."""
    (one,) = pod(workload)["containers"]
    found: Manifest = one
    return found


def literals() -> dict[str, str]:
    """The values of the ConfigMap."""
    (generator,) = kustomization()["configMapGenerator"]
    return dict(one.split("=", 1) for one in generator["literals"])


def environment(workload: Manifest) -> dict[str, str]:
    """Its variables, with the values of the ConfigMap in place; those that the cluster fills in are `<path>`."""
    values = {}
    for one in container(workload).get("env", ()):
        if "value" in one:
            values[one["name"]] = one["value"]
        elif "fieldRef" in one["valueFrom"]:
            values[one["name"]] = f"<{one['valueFrom']['fieldRef']['fieldPath']}>"
        else:
            values[one["name"]] = literals()[one["valueFrom"]["configMapKeyRef"]["key"]]
    return values
