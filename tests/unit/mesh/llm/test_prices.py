"""Prices of models: the table, the user's file, and the cost of a usage."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from archon.errors import InvalidArgument, NotFound
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm import ModelRequest, TextToolModel, Usage
from archon_mesh.llm.openai import OpenAIModel
from archon_mesh.llm.prices import TABLE, Price, estimate_call, find_price, find_window, highest, price_of, read_prices
from tests.fixtures.openai_server import Answer, OpenAIServer, chunk, completion

HELLO = ModelRequest([ChatMessage("user", "hello there, mesh")], timeout=10)
PRICE = Price(input=2.0, output=10.0, cached_input=0.5, cache_write=2.5)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


def prices_file(folder: Path, text: str) -> Path:
    path = folder / "prices.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage(1_000, 100), 3_000),
        (Usage(1_000, 100, cached_input_tokens=600), 2_100),
        (Usage(1_000, 100, cached_input_tokens=600, cache_write_tokens=200), 2_200),
        (Usage(0, 0), 0),
        (Usage(100, 0, cached_input_tokens=200), 100),
    ],
)
def test_cost_is_the_sum_over_kinds_of_tokens(usage: Usage, cost: int) -> None:
    assert PRICE.cost_of(usage) == cost


def test_cost_is_rounded_up_to_a_millionth_of_a_dollar() -> None:
    assert Price(0.1, 0.4, 0.1, 0.1).cost_of(Usage(1, 0)) == 1
    assert Price(0.1, 0.4, 0.1, 0.1).cost_of(Usage(30, 0)) == 3


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage(200, 10), 200 * 2 + 10 * 10),
        (Usage(201, 10), 201 * 4 + 10 * 15),
        (Usage(501, 10, cached_input_tokens=500), 6 + 500 * 6 + 10 * 15),
    ],
)
def test_a_long_prompt_has_another_price_for_all_its_tokens(tmp_path: Path, usage: Usage, cost: int) -> None:
    tiers = "[{above: 500, input: 6, output: 15}, {above: 200, input: 4, output: 15, cached_input: 1}]"
    text = f"models: {{google/x: {{input: 2, output: 10, cached_input: 0.5, long: {tiers}}}}}"
    assert read_prices(prices_file(tmp_path, text))["google/x"].cost_of(usage) == cost


@pytest.mark.parametrize(
    "name", ["global.anthropic.claude-opus-5-5", "eu.anthropic.claude-opus-5-5", "anthropic.claude-opus-5-5"]
)
def test_a_model_of_bedrock_costs_the_same_in_each_region(name: str) -> None:
    price = find_price(f"bedrock/{name}")
    assert price is not None
    assert price == read_prices(TABLE)["bedrock/global.anthropic.claude-opus-5-5"]


def test_the_table_is_valid_and_names_all_providers() -> None:
    providers = {name.partition("/")[0] for name in read_prices(TABLE)}
    assert providers == {"openai", "anthropic", "google", "mistral", "bedrock"}
    assert all(price.cached_input <= price.input <= price.output for price in read_prices(TABLE).values())


@pytest.mark.parametrize("suffix", ["", "-2024-07-18", "-20240718", "-latest"])
def test_a_dated_version_has_the_price_of_its_model(suffix: str) -> None:
    assert find_price(f"openai/gpt-4o-mini{suffix}") == Price(0.15, 0.6, 0.075, 0.15)


def test_an_unknown_model_has_no_price_and_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert find_price("openai/gpt-4o-mini-audio") is None
    assert [record.getMessage() for record in caplog.records] == [
        "openai/gpt-4o-mini-audio has no price: its calls count as free of charge; ARCHON_PRICES can name one"
    ]


def test_the_users_file_replaces_and_extends_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "models: {openai/gpt-4o: {input: 1, output: 2}, openai/mine: {input: 3, output: 4}}"
    monkeypatch.setenv("ARCHON_PRICES", str(prices_file(tmp_path, text)))
    assert find_price("openai/gpt-4o") == Price(1.0, 2.0, 1.0, 1.0)
    assert find_price("openai/mine") == Price(3.0, 4.0, 3.0, 3.0)
    assert find_price("openai/gpt-4o-mini") is not None


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("gpt-4o", 128_000),
        ("gpt-4o-2024-08-06", 128_000),
        ("anthropic/claude-opus-4-5", 200_000),
        ("openai/mine", 9_000),
        ("openai/gpt-4o-mini", 128_000),
        ("offline", 0),
    ],
)
def test_a_context_window_is_found_by_the_models_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, window: int
) -> None:
    text = "models: {openai/gpt-4o-mini: {input: 1, output: 2}, openai/mine: {input: 3, output: 4, window: 9000}}"
    monkeypatch.setenv("ARCHON_PRICES", str(prices_file(tmp_path, text)))
    assert find_window(model) == window


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models: [", "is not YAML"),
        ("date: 2026-01-01", "expected the key `models`"),
        ("- 1", "expected the key `models`"),
        ("models: {gpt-4o: {input: 1, output: 2}}", "is not provider/name"),
        ("models: {openai/x: 3}", "must have `input` and `output`"),
        ("models: {openai/x: {input: 1}}", "openai/x has no 'output'"),
        ("models: {openai/x: {input: 1, output: 2, cache: 3}}", "unknown key 'cache'"),
        ("models: {openai/x: {input: -1, output: 2}}", "input must be US dollars per million tokens, not -1"),
        ("models: {openai/x: {input: .nan, output: 2}}", "input must be US dollars"),
        ("models: {openai/x: {input: true, output: 2}}", "input must be US dollars"),
        ("models: {openai/x: {input: 1$, output: 2}}", "input must be US dollars"),
        ("models: {openai/x: {input: 1, output: 2, window: -1}}", "window must be a number of tokens, not -1"),
        ("models: {openai/x: {input: 1, output: 2, window: 1.5}}", "window must be a number of tokens, not 1.5"),
        ("models: {openai/x: {input: 1, output: 2, long: 3}}", "long must be a list of prices with `above`, not 3"),
        (
            "models: {openai/x: {input: 1, output: 2, long: [{input: 1, output: 2}]}}",
            "above must be a number of tokens",
        ),
        ("models: {openai/x: {input: 1, output: 2, long: [{above: 9, input: 1}]}}", "openai/x has no 'output'"),
    ],
)
def test_a_malformed_file_is_refused_with_its_name(tmp_path: Path, text: str, message: str) -> None:
    path = prices_file(tmp_path, text)
    with pytest.raises(InvalidArgument) as caught:
        read_prices(path)
    assert str(path) in str(caught.value) and message in str(caught.value)


def test_a_file_that_is_missing_or_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="No such file"):
        read_prices(tmp_path / "none.yaml")
    with pytest.raises(InvalidArgument, match="1,048,576 bytes"):
        read_prices(prices_file(tmp_path, "#" * (1024 * 1024 + 1)))


def test_an_unusable_file_fails_the_creation_of_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHON_PRICES", str(tmp_path / "none.yaml"))
    with pytest.raises(NotFound):
        OpenAIModel("some-model", base_url="http://127.0.0.1:9/v1")


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_reply_has_its_cost(server: OpenAIServer, streamed: bool) -> None:
    usage = {
        "prompt_tokens": 1_000,
        "completion_tokens": 100,
        "total_tokens": 1_100,
        "prompt_tokens_details": {"cached_tokens": 600},
    }
    model = OpenAIModel("gpt-4o", base_url=server.url)
    if streamed:
        server.script(Answer(events=[chunk({"content": "a"}), chunk(finish="stop"), chunk(usage=usage)]))
        reply = [step async for step in model.stream(HELLO)][-1].reply
    else:
        server.script(Answer(completion({"content": "a"}, usage=usage)))
        reply = await model.generate(HELLO)
    await model.close()
    assert reply is not None
    assert reply.usage == Usage(1_000, 100, cached_input_tokens=600, cost_micro_usd=1_000 + 750 + 1_000)


async def test_a_call_is_estimated_with_its_largest_reply() -> None:
    model = TextToolModel(OpenAIModel("gpt-4o", base_url="http://127.0.0.1:9/v1"))
    request = ModelRequest([ChatMessage("user", "x" * 4_000)], max_tokens=500)
    assert estimate_call(model, request) == (1_500, 2_500 + 5_000)
    assert estimate_call(model, ModelRequest(request.messages))[0] == 2_024
    await model.close()


def test_the_highest_price_bounds_each_of_several() -> None:
    assert highest([Price(1, 9, 1, 1), None, Price(2, 3, 0, 4)]) == Price(2, 9, 1, 4)
    assert highest([None]) is None


def test_the_highest_price_bounds_long_prompts_too() -> None:
    first = Price(1, 9, 1, 1, long=((100, Price(3, 9, 1, 1)), (300, Price(5, 9, 1, 1))))
    second = Price(2, 3, 0, 4, long=((200, Price(4, 20, 0, 4)),))
    price = highest([first, second])
    assert price is not None
    assert [price.at(tokens).input for tokens in (100, 101, 201, 301)] == [2, 3, 4, 5]
    for tokens in (50, 150, 250, 400):
        usage = Usage(tokens, 10)
        assert price.cost_of(usage) >= max(first.cost_of(usage), second.cost_of(usage))


def test_a_client_without_a_price_has_none() -> None:
    assert price_of(object()) is None  # type: ignore[arg-type]
