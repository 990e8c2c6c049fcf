"""Writes the table of prices of models from the package genai-prices: `make prices`, before a release."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from genai_prices.data import providers
from genai_prices.types import ModelInfo, ModelPrice, TieredPrices

TABLE = Path(__file__).parents[1] / "mesh" / "archon_mesh" / "llm" / "prices.json"
PROVIDERS = {"openai": "openai", "anthropic": "anthropic", "google": "google", "mistral": "mistral", "aws": "bedrock"}
"""Archon's names of providers by those of the package."""

FIELDS = {
    "input": "input_mtok",
    "cached_input": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "output": "output_mtok",
}
NOT_CHAT = re.compile(r"audio|realtime|image|tts|transcribe|embed|live|moderation|ocr|sonic|^ft:|:free$|voxtral")
FOREIGN = {"google": re.compile(r"^(?!gemini|gemma)"), "mistral": re.compile(r"^(deepseek|zai)")}
"""Models of other makers, whose names mean something else behind the provider's own API."""


def table(now: datetime) -> dict[str, Any]:
    """Returns the prices of chat models at a time."""
    models: dict[str, Any] = {}
    for provider in providers:
        name = PROVIDERS.get(provider.id)
        if name is None:
            continue
        for model in provider.models:
            foreign = FOREIGN.get(name)
            if NOT_CHAT.search(model.id) or (foreign is not None and foreign.search(model.id)):
                continue
            if (entry := entry_of(model, model.get_prices(now))) is not None:
                models.setdefault(f"{name}/{model.id.removesuffix('-latest')}", entry)
    source = f"genai-prices {version('genai-prices')}, made by `make prices`"
    return {"source": source, "date": now.date().isoformat(), "models": dict(sorted(models.items()))}


def entry_of(model: ModelInfo, prices: ModelPrice) -> dict[str, Any] | None:
    """Returns the entry of a model; None if it has no prices of input and output."""
    values = {field: getattr(prices, name, None) for field, name in FIELDS.items()}
    if values["input"] is None or values["output"] is None:
        return None
    entry: dict[str, Any] = {field: at(value, 0) for field, value in values.items() if value is not None}
    starts = sorted({start for value in values.values() for start in starts_of(value)})
    if starts:
        entry["long"] = [
            {"above": start, **{field: at(value, start) for field, value in values.items() if value is not None}}
            for start in starts
        ]
    if model.context_window:
        entry["window"] = model.context_window
    return entry


def starts_of(value: Any) -> Iterator[int]:
    """Yields the tokens of input above which a price is another one."""
    if isinstance(value, TieredPrices):
        yield from (tier.start for tier in value.tiers)


def at(value: Any, start: int) -> float:
    """Returns the price above a number of tokens of input."""
    if not isinstance(value, TieredPrices):
        return float(value)
    return float(next((tier.price for tier in reversed(value.tiers) if tier.start <= start), value.base))


def text_of(data: dict[str, Any]) -> str:
    """Returns the table as JSON with one line for each model."""
    lines = [f"    {json.dumps(name)}: {json.dumps(entry)}" for name, entry in data["models"].items()]
    head = "".join(f"  {json.dumps(key)}: {json.dumps(data[key])},\n" for key in ("source", "date"))
    return "{\n" + head + '  "models": {\n' + ",\n".join(lines) + "\n  }\n}\n"


if __name__ == "__main__":
    TABLE.write_text(text_of(table(datetime.now(UTC))))
