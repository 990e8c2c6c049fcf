"""The file of quotas: what it may hold, the lookup by name, and mistakes with file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon.errors import InvalidArgument, NotFound
from archon_services.common.quotas import Quota, Quotas, load_quotas

COMPLETE = """
tenants:
  acme: {weight: 2, runs: 1000, runs_per_day: 50000, streams: 200, instances: 100, bytes_per_day: 1000000000}
  "*": {runs: 0}
identities:
  ann: {tokens_per_day: 20000000, usd_per_day: 0.25}
"""


def load(folder: Path, text: str) -> Quotas:
    file = folder / "quotas.yaml"
    file.write_text(text)
    quotas = load_quotas(str(file))
    assert quotas is not None
    return quotas


def test_a_file_has_quotas_by_tenant_and_identity(tmp_path: Path) -> None:
    quotas = load(tmp_path, COMPLETE)
    acme = Quota(1000, 200, 100, 50_000, 1_000_000_000, None, None, 2.0)
    assert quotas.of_tenant("acme") == acme
    assert quotas.of_tenant("blue") == Quota(runs=0), "every other one"
    assert quotas.of_identity("ann") == Quota(tokens_per_day=20_000_000, micro_usd_per_day=250_000)
    assert quotas.of_identity("bob") == quotas.of_identity("anonymous") == Quota()


def test_without_a_file_there_are_no_quotas(tmp_path: Path) -> None:
    assert load_quotas("") is None
    assert load(tmp_path, "").of_tenant("acme") == Quota()
    with pytest.raises(NotFound, match="no such file"):
        load_quotas(str(tmp_path / "absent.yaml"))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("tenants:\n  acme: {run: 1}", 2, "tenants.acme.run: is not a key here; did you mean runs?"),
        ("tenants:\n  acme:\n    runs: -1", 3, "tenants.acme.runs: must be at least 0"),
        ("tenants:\n  acme: {runs: 1.5}", 2, "tenants.acme.runs: must be a whole number"),
        ("tenants:\n  acme: {runs: true}", 2, "tenants.acme.runs: must be a whole number"),
        ("tenants:\n  acme: {runs_per_day: 1000000000000001}", 2, "must be at most 1000000000000000"),
        ("tenants:\n  acme: {weight: 0}", 2, "tenants.acme.weight: must be at least 0.01"),
        ("tenants:\n  acme: {usd_per_day: .nan}", 2, "tenants.acme.usd_per_day"),
        ("tenants:\n  acme: {usd_per_day: much}", 2, "tenants.acme.usd_per_day: must be a number"),
        ("tenants:\n  a/b: {runs: 1}", 2, "tenants.a/b: is no name of a tenant"),
        ("tenants: [acme]", 1, "tenants: must be a mapping"),
        ("identities:\n  ann: {weight: 2}", 2, "identities.ann.weight: is not a key here"),
        ("identities:\n  ann: {instances: 2}", 2, "identities.ann.instances: is not a key here"),
        ("identities:\n  '': {runs: 2}", 2, "an identity has 1 to 256 characters"),
        ("tenants:\n  acme: {runs: 1}\n  acme: {runs: 2}", 3, "tenants.acme: duplicate key"),
        ("tenant: {}", 1, "tenant: is not a key here; did you mean tenants?"),
    ],
)
def test_a_mistake_names_file_line_and_key(text: str, line: int, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument) as caught:
        load(tmp_path, text)
    assert caught.value.message.startswith(f"{tmp_path / 'quotas.yaml'}:{line}: ")
    assert message in caught.value.message
