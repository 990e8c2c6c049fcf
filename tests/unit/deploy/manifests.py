"""The manifests of the kustomize base as they stand in the repository."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[3]
BASE: Final = ROOT / "deploy" / "kustomize" / "base"
DOCKERFILE: Final = ROOT / "deploy" / "Dockerfile"

Manifest = dict[str, Any]


class Invalid(Exception):
    """The schema refuses a manifest."""


def schema_fault(manifest: Manifest, version: str) -> str:
    """Returns the first violation of the schema of a manifest's kind in a version of Kubernetes; empty if there is none.
    An unknown field is a violation."""
    schemas = _schemas()
    try:
        schemas.validate(manifest, version, strict=True)
    except schemas.ValidationError as error:
        return str(error)
    return ""


def validate(manifest: Manifest, version: str) -> None:
    """Raises Invalid if a manifest violates the schema of its kind in a version of Kubernetes."""
    if fault := schema_fault(manifest, version):
        raise Invalid(fault)


def kustomization() -> Manifest:
    """Returns the kustomization of the base."""
    content: Manifest = yaml.safe_load((BASE / "kustomization.yaml").read_text())
    return content


@cache
def _schemas() -> Any:
    """Returns the module kubernetes_validate, which has no types, and whose import takes a second. It would read and
    parse all definitions of a version for each manifest."""
    schemas: Any = import_module("kubernetes_validate")
    schemas.utils.schema_contents = cache(schemas.utils.schema_contents)
    return schemas


def documents_of(text: str) -> list[Manifest]:
    """Returns the documents of a YAML text, by the parser in C, which takes a tenth of the time."""
    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))


@cache
def _documents() -> list[Manifest]:
    return [
        document
        for path in sorted(BASE.glob("*.yaml"))
        if path.name != "kustomization.yaml"
        for document in documents_of(path.read_text())
    ]


def manifests() -> list[Manifest]:
    """Returns every object of every file of the base."""
    return deepcopy(_documents())


def name_of(manifest: Manifest) -> str:
    """Returns a name such as `Deployment/archon-registry` for the ids of tests."""
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def workloads() -> list[Manifest]:
    """Returns the Deployments and StatefulSets."""
    return [manifest for manifest in manifests() if manifest["kind"] in ("Deployment", "StatefulSet")]


def ours() -> list[Manifest]:
    """Returns the workloads that run images of Archon."""
    return [workload for workload in workloads() if name_of(workload) != "StatefulSet/archon-etcd"]


def services() -> dict[str, Manifest]:
    """Returns the Services by name."""
    return {manifest["metadata"]["name"]: manifest for manifest in manifests() if manifest["kind"] == "Service"}


def pod(workload: Manifest) -> Manifest:
    """Returns the pod spec of a workload."""
    spec: Manifest = workload["spec"]["template"]["spec"]
    return spec


def container(workload: Manifest) -> Manifest:
    """Returns the only container of a workload."""
    only: Manifest
    (only,) = pod(workload)["containers"]
    return only


def literals() -> dict[str, str]:
    """Returns the values of the ConfigMap."""
    (generator,) = kustomization()["configMapGenerator"]
    return dict(literal.split("=", 1) for literal in generator["literals"])


def environment(workload: Manifest) -> dict[str, str]:
    """Returns the variables of a workload with the values of the ConfigMap. A value that the cluster fills in is
    `<path>`."""
    values = {}
    for variable in container(workload).get("env", ()):
        if "value" in variable:
            values[variable["name"]] = variable["value"]
        elif "fieldRef" in variable["valueFrom"]:
            values[variable["name"]] = f"<{variable['valueFrom']['fieldRef']['fieldPath']}>"
        else:
            values[variable["name"]] = literals()[variable["valueFrom"]["configMapKeyRef"]["key"]]
    return values
