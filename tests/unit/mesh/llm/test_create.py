"""Creating a model client by name."""

from __future__ import annotations

import subprocess
import sys

import pytest

from archon.errors import InvalidArgument
from archon_mesh.llm import create_model


def test_offline_is_the_default_even_if_a_key_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert create_model().model == "offline"


async def test_openai_model_name_may_contain_slashes() -> None:
    model = create_model("openai/meta/llama-3", base_url="http://127.0.0.1:9/v1", api_key="none")
    assert model.model == "meta/llama-3"
    await model.close()


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "openai",
        "openai/",
        "openai/ ",
        "anthropic/",
        "openai-responses/",
        "text/x",
        "gpt-4o",
        "offline/x",
        "other/m",
    ],
)
def test_unknown_model_is_rejected_with_the_valid_choices(spec: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        create_model(spec)
    assert "'offline'" in str(caught.value)
    assert "'openai/NAME'" in str(caught.value)


def test_offline_model_imports_neither_openai_nor_networkx() -> None:
    code = (
        "import sys; from archon_mesh.llm import create_model; create_model('offline'); "
        "sys.exit(bool({'openai', 'anthropic', 'networkx', 'httpx2', 'yaml'} & set(sys.modules)))"
    )
    path = [entry for entry in sys.path if entry]
    program = f"import sys; sys.path[:0] = {path!r}; {code}"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
