"""Certificates of members, their ids, and the authority that issues them."""

from __future__ import annotations

import datetime
import shutil
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from archon.errors import CertificateRefused, FailedPrecondition, InvalidArgument
from archon.principal import Kind
from archon.security.certificates import CertificateFolder, identity_of, member_of
from archon.security.spiffe import SpiffeId
from archon.security.transport import check_listening
from archon_services.local_mesh.authority import Authority

NOW = datetime.datetime.now(datetime.UTC)
REVIEWER = SpiffeId("mesh", "default", Kind.AGENT, "reviewer")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("mesh", now=NOW)


@pytest.fixture
def folder(authority: Authority, tmp_path: Path) -> Path:
    authority.issue(tmp_path / "reviewer", REVIEWER, now=NOW, names=("reviewer.example.com", "192.0.2.7"))
    return tmp_path / "reviewer"


def with_uris(*uris: str) -> x509.Certificate:
    """A certificate with these URIs, signed by its own key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW + datetime.timedelta(days=1))
    )
    if uris:
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri) for uri in uris])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(key, hashes.SHA256())


@given(
    st.builds(
        SpiffeId,
        st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True),
        st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,20}", fullmatch=True),
        st.sampled_from(Kind),
        st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,20}", fullmatch=True),
    )
)
def test_an_id_is_read_as_it_was_written(identity: SpiffeId) -> None:
    assert SpiffeId.parse(str(identity)) == identity


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "spiffe://mesh",
        "https://mesh/ns/default/agent/a",
        "spiffe://mesh/ns/default/root/a",
        "spiffe://mesh/ns/default/agent/",
        "spiffe://mesh/ns/default/agent/a/b",
        "spiffe://mesh/ns/default/agent/a?x=1",
        "spiffe://mesh/ns/default/agent/a\n",
        "spiffe://Mesh/ns/default/agent/a",
        "spiffe://mesh/ns/../agent/a",
        "spiffe://mesh/default/agent/a",
    ],
)
def test_a_uri_that_is_no_id_of_a_member_is_refused(uri: str) -> None:
    with pytest.raises(InvalidArgument, match="is not the id of a member"):
        SpiffeId.parse(uri)


def test_a_certificate_names_a_member_by_uri_and_by_dns(folder: Path) -> None:
    own = CertificateFolder(folder).read()
    assert (own.identity, own.identity.dns_name) == (REVIEWER, "reviewer.agent.default.mesh")
    assert own.other_names == ("reviewer.example.com", "192.0.2.7")
    assert own.expires == pytest.approx((NOW + datetime.timedelta(days=90)).timestamp(), abs=1)
    principal = member_of(own.chain, "mesh")
    assert (principal.kind, principal.name, principal.roles) == (Kind.AGENT, "reviewer", frozenset({"reviewer"}))
    assert principal.expires == own.expires
    for file in folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_certificate_without_one_id_names_no_member() -> None:
    for uris in ((), ("spiffe://mesh/ns/default/agent/a", "spiffe://mesh/ns/default/admin/b")):
        with pytest.raises(FailedPrecondition, match=f"has {len(uris)} URIs, and needs one"):
            identity_of(with_uris(*uris))
        with pytest.raises(CertificateRefused, match="names no member"):
            member_of(with_uris(*uris).public_bytes(Encoding.PEM), "mesh")
    with pytest.raises(CertificateRefused, match="names no member"):
        member_of(with_uris("https://example.com").public_bytes(Encoding.PEM), "mesh")
    with pytest.raises(CertificateRefused, match="names no member"):
        member_of(b"", "mesh")


def test_a_member_of_another_mesh_is_refused(folder: Path) -> None:
    with pytest.raises(CertificateRefused, match="is of the mesh mesh, this is other"):
        member_of(CertificateFolder(folder).read().chain, "other")


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
def test_a_folder_with_a_missing_or_damaged_file_is_refused(folder: Path, name: str) -> None:
    (folder / name).write_text("-----BEGIN NOTHING-----")
    with pytest.raises(FailedPrecondition, match="is not PEM"):
        CertificateFolder(folder).read()
    (folder / name).unlink()
    with pytest.raises(FailedPrecondition, match="No such file"):
        CertificateFolder(folder).read()


def test_a_key_of_another_certificate_leaves_the_last_one_in_force(
    authority: Authority, folder: Path, tmp_path: Path
) -> None:
    files = CertificateFolder(folder, interval=0.0)
    first = files.read()
    authority.issue(tmp_path / "new", REVIEWER, now=NOW)
    shutil.copy(tmp_path / "new" / "tls.crt", folder)  # half of a renewal
    assert files.read() is first
    with pytest.raises(FailedPrecondition, match="is not the key of"):
        CertificateFolder(folder).read()
    shutil.copy(tmp_path / "new" / "tls.key", folder)
    assert files.read().chain != first.chain


def test_an_authority_is_read_as_it_was_stored_and_issues_for_its_mesh_alone(
    authority: Authority, tmp_path: Path
) -> None:
    authority.store(tmp_path / "authority")
    again = Authority.load(tmp_path / "authority")
    assert (again.mesh, again.certificate) == ("mesh", authority.certificate)
    with pytest.raises(FailedPrecondition, match="not of other"):
        again.issue(tmp_path / "x", SpiffeId("other", "default", Kind.AGENT, "a"), now=NOW)
    with pytest.raises(FailedPrecondition, match="`archon certs init` makes one"):
        Authority.load(tmp_path / "nothing")
    (tmp_path / "authority" / "ca.key").write_text("x")
    with pytest.raises(FailedPrecondition, match="cannot use the authority"):
        Authority.load(tmp_path / "authority")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]"])
def test_a_server_on_loopback_needs_no_tls(host: str) -> None:
    assert check_listening(host, encrypted=False) == ""


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "pod.example.com"])
def test_a_server_that_others_reach_needs_tls_or_a_permission(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARCHON_INSECURE", raising=False)
    assert check_listening(host, encrypted=True) == ""
    with pytest.raises(FailedPrecondition, match="in clear text: set ARCHON_TLS"):
        check_listening(host, encrypted=False)
    monkeypatch.setenv("ARCHON_INSECURE", "1")
    assert "without TLS" in check_listening(host, encrypted=False)
