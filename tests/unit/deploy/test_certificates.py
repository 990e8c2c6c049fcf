"""The certificates of the component `tls` name members as the code expects it."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from cryptography import x509

from archon.principal import DEFAULT_TENANT, Kind
from archon.security import peer
from archon.security.certificates import own_certificate
from archon.security.spiffe import SpiffeId
from archon_services.local_mesh.authority import Authority
from archon_services.registry.store.etcd_client import parse_members
from tests.unit.deploy.certificates import issue
from tests.unit.deploy.kustomize_output import config, of_kind, render, templates
from tests.unit.deploy.manifests import Manifest
from tests.unit.deploy.rules import AGENTS, GATEWAY, OURS

MESH = "archon"


def certificates() -> dict[str, Manifest]:
    return of_kind(render("overlays/production", "tls-authority"), "Certificate")


def identity(name: str) -> SpiffeId:
    kind = Kind.AGENT if name in AGENTS else Kind.SERVICE
    return SpiffeId(MESH, DEFAULT_TENANT, kind, name.removeprefix("archon-"))


def test_every_process_has_a_certificate() -> None:
    assert set(certificates()) == OURS | {"archon-etcd", "archon-authority"}


@pytest.mark.parametrize("name", sorted(OURS))
def test_a_certificate_names_its_member(name: str, tmp_path: Path) -> None:
    certificate = certificates()[name]
    member = identity(name)
    assert certificate["spec"]["uris"] == [str(member)]
    assert certificate["spec"]["dnsNames"] == [member.dns_name]
    assert {"server auth", "client auth"} <= set(certificate["spec"]["usages"])
    authority = Authority.create(MESH, now=datetime.datetime.now(datetime.UTC))
    folder = issue(authority, certificate, tmp_path)
    files = [(folder / file).read_bytes() for file in ("tls.crt", "tls.key", "ca.crt")]
    assert own_certificate(*files).identity == member


def test_services_are_those_that_clients_ask_for() -> None:
    asked = {f"archon-{each.name}" for each in (peer.ORCHESTRATOR, peer.REGISTRY, peer.MEMORY)}
    assert asked == OURS - AGENTS - {GATEWAY}


def test_etcd_is_named_as_it_is_dialled_and_is_no_member() -> None:
    documents = render("overlays/production")
    spec = certificates()["archon-etcd"]["spec"]
    dialled = {
        member.removeprefix("https://").rpartition(":")[0] for member in parse_members(config(documents)["etcd"])
    }
    assert dialled <= set(spec["dnsNames"])
    assert "uris" not in spec
    arguments = templates(documents)["archon-etcd"]["spec"]["containers"][0]["args"]
    values = dict(argument.removeprefix("--").split("=", 1) for argument in arguments)
    peers = [entry.partition("=")[2] for entry in values["initial-cluster"].split(",")]
    assert {url.removeprefix("https://").rpartition(":")[0] for url in peers} == dialled
    registry, members = values["client-cert-allowed-hostname"].split(",")
    assert registry == identity("archon-registry").dns_name
    assert members == values["peer-cert-allowed-hostname"] and members in spec["dnsNames"]


def test_all_certificates_are_of_one_issuer_which_is_there() -> None:
    documents = render("overlays/production", "tls-authority")
    issuers = of_kind(documents, "Issuer")
    names = {name: each["spec"]["issuerRef"]["name"] for name, each in certificates().items()}
    assert names.pop("archon-authority") in issuers
    assert set(names.values()) == {"archon"}
    assert issuers["archon"]["spec"]["ca"]["secretName"] == certificates()["archon-authority"]["spec"]["secretName"]


def test_certificates_are_renewed_well_before_their_end() -> None:
    for name, certificate in certificates().items():
        if name != "archon-authority":
            spec = certificate["spec"]
            assert int(spec["renewBefore"].removesuffix("h")) * 2 <= int(spec["duration"].removesuffix("h"))
            assert spec["privateKey"]["rotationPolicy"] == "Always"


def test_an_issued_certificate_has_the_names_of_its_manifest(tmp_path: Path) -> None:
    authority = Authority.create(MESH, now=datetime.datetime.now(datetime.UTC))
    folder = issue(authority, certificates()["archon-etcd"], tmp_path, "127.0.0.1")
    leaf = x509.load_pem_x509_certificate((folder / "tls.crt").read_bytes())
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == certificates()["archon-etcd"]["spec"]["dnsNames"]
