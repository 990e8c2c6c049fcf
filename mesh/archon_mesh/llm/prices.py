"""The cost of model calls: prices per token from `prices.json`, and from the file that ARCHON_PRICES names."""

from __future__ import annotations

import json
import logging
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from archon.errors import InvalidArgument, NotFound
from archon_mesh.llm.base import ModelClient, ModelRequest, Usage, estimate_tokens
from archon_mesh.llm.calibration import calibrated_input

TABLE: Final = Path(__file__).with_name("prices.json")
MAX_FILE: Final = 1024 * 1024
"""Bytes of a file of prices."""

OUTPUT_TOKENS: Final = 1024
"""Tokens that a reply is estimated at if the request sets no `max_tokens`."""

MAX_WINDOW: Final = 1_000_000_000
"""Tokens of a context window that a file of prices may name."""

_FIELDS: Final = ("input", "cached_input", "cache_write", "output")
_WINDOW: Final = "window"
_LONG: Final = "long"
_ABOVE: Final = "above"
_REGION: Final = re.compile(r"^bedrock/(?:[a-z]{2,6}(?:-gov)?\.(?=\w+\.))?")
"""The beginnings of Bedrock's names of models: the region that answers, or `global`."""

_DATED: Final = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8}|latest)$")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens, which is millionths of a dollar per token.

    `cached_input` is the price of input read from the provider's cache, `cache_write` the price of input written to it.
    `long` are other prices for all tokens of a call whose input exceeds a number of tokens, in ascending order of it.
    `window` is not a price, but the model's context window in tokens; 0 if it is unknown.
    """

    input: float
    output: float
    cached_input: float
    cache_write: float
    window: int = field(default=0, compare=False)
    long: tuple[tuple[int, Price], ...] = ()

    def at(self, input_tokens: int) -> Price:
        """Returns the price of a call with an input of this length."""
        return next((price for above, price in reversed(self.long) if input_tokens > above), self)

    def cost_of(self, usage: Usage) -> int:
        """Returns the cost in millionths of a US dollar, rounded up."""
        price = self.at(usage.input_tokens)
        fresh = max(0, usage.input_tokens - usage.cached_input_tokens - usage.cache_write_tokens)
        cost = (
            fresh * price.input
            + usage.cached_input_tokens * price.cached_input
            + usage.cache_write_tokens * price.cache_write
            + usage.output_tokens * price.output
        )
        # Prices are decimal fractions: without rounding first, 3 x 0.1 would be more than 0.3.
        return math.ceil(round(cost, 6))


def find_price(model: str) -> Price | None:
    """Returns the price of `provider/name`, or of the model whose dated version the name is; None if it has none.

    A model of Bedrock costs the same whatever region is in its name.

    Raises InvalidArgument or NotFound if the file of ARCHON_PRICES cannot be used.
    """
    prices = _prices(os.environ.get("ARCHON_PRICES") or "")
    names = [model, _DATED.sub("", model)]
    if model.startswith("bedrock/"):
        names += [_REGION.sub("bedrock/", model), _REGION.sub("bedrock/global.", model)]
    price = next((prices[name] for name in names if name in prices), None)
    if price is None:
        _log.info("%s has no price: its calls count as free of charge; ARCHON_PRICES can name one", model)
    return price


def find_window(model: str) -> int:
    """Returns the context window of a model in tokens, 0 if it is unknown. The name may be without its provider.

    Raises InvalidArgument or NotFound if the file of ARCHON_PRICES cannot be used.
    """
    names = [model] if "/" in model else [f"{provider}/{model}" for provider in ("openai", "anthropic")]
    for prices in (_prices(os.environ.get("ARCHON_PRICES") or ""), _prices("")):  # a user's entry may have prices only
        for name in names:
            price = prices.get(name) or prices.get(_DATED.sub("", name))
            if price is not None and price.window:
                return price.window
    return 0


def price_of(model: ModelClient) -> Price | None:
    """Returns the price of a client's calls; None if it has none."""
    price = getattr(model, "price", None)
    return price if isinstance(price, Price) else None


def highest(prices: list[Price | None]) -> Price | None:
    """Returns the price that is an upper bound of several models' prices; None if none of them has one."""
    known = [price for price in prices if price is not None]
    if not known:
        return None
    starts = sorted({above for price in known for above, _ in price.long})
    long = tuple((above, _highest([price.at(above + 1) for price in known])) for above in starts)
    return replace(_highest(known), long=long)


def _highest(prices: list[Price]) -> Price:
    return Price(**{name: max(getattr(price, name) for price in prices) for name in _FIELDS})


def with_cost(usage: Usage, price: Price | None) -> Usage:
    """Returns the usage with its cost in micro-USD; unchanged if the price is unknown."""
    return usage if price is None else replace(usage, cost_micro_usd=price.cost_of(usage))


def usage_of_failed(model: ModelClient, request: ModelRequest, written: str) -> Usage | None:
    """Estimates the usage of a call that failed after the model had `written` something, since its provider charges for
    it; None if it had written nothing."""
    if not written:
        return None
    usage = Usage(calibrated_input(model, request), estimate_tokens(written), estimated=True)
    return with_cost(usage, price_of(model))


def estimate_call(model: ModelClient, request: ModelRequest) -> tuple[int, int]:
    """Estimates a call before it is made: tokens of input and reply, and cost in millionths of a US dollar."""
    usage = Usage(calibrated_input(model, request), request.max_tokens or OUTPUT_TOKENS)
    price = price_of(model)
    return usage.input_tokens + usage.output_tokens, price.cost_of(usage) if price is not None else 0


def read_prices(path: Path) -> dict[str, Price]:
    """Reads a file of prices, in YAML or JSON. Raises NotFound if it cannot be read, and InvalidArgument if it is
    malformed."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE + 1)
    except (OSError, ValueError) as error:
        raise NotFound(f"cannot read the prices in {path}: {getattr(error, 'strerror', '') or error}") from None
    if len(content) > MAX_FILE:
        raise InvalidArgument(f"{path} has more than {MAX_FILE:,} bytes")
    data = _decoded(path, content)
    models = data.get("models") if isinstance(data, Mapping) else None
    if not isinstance(models, Mapping):
        raise InvalidArgument(f"{path}: expected the key `models`, with one entry per model")
    return {str(name): _price(path, str(name), entry) for name, entry in models.items()}


def _decoded(path: Path, content: bytes) -> Any:
    if path.suffix == ".json":
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise InvalidArgument(f"{path} is not JSON: {error}") from None
    from archon_mesh.plain_yaml import YamlError, plain_yaml  # many times slower than JSON

    try:
        return plain_yaml(content)
    except YamlError as error:
        raise InvalidArgument(f"{path} is not YAML: {error}") from None


@lru_cache(maxsize=8)
def _prices(override: str) -> Mapping[str, Price]:
    prices = read_prices(TABLE)
    return {**prices, **read_prices(Path(override))} if override else prices


def _price(path: Path, name: str, entry: Any) -> Price:
    if "/" not in name:
        raise InvalidArgument(f"{path}: {name!r} is not provider/name, such as openai/gpt-4o")
    if not isinstance(entry, Mapping):
        raise InvalidArgument(f"{path}: {name} must have `input` and `output`")
    window = entry.get(_WINDOW, 0)
    if isinstance(window, bool) or not isinstance(window, int) or not 0 <= window <= MAX_WINDOW:
        raise InvalidArgument(f"{path}: {name}: {_WINDOW} must be a number of tokens, not {window!r}")
    long = entry.get(_LONG, [])
    if not isinstance(long, list) or not all(isinstance(each, Mapping) for each in long):
        raise InvalidArgument(f"{path}: {name}: {_LONG} must be a list of prices with `{_ABOVE}`, not {long!r}")
    price = _prices_of(path, name, entry, (_WINDOW, _LONG))
    tiers: list[tuple[int, Price]] = []
    for each in long:
        above = each.get(_ABOVE)
        if isinstance(above, bool) or not isinstance(above, int) or not 0 < above <= MAX_WINDOW:
            raise InvalidArgument(f"{path}: {name}: {_ABOVE} must be a number of tokens, not {above!r}")
        tiers.append((above, _prices_of(path, name, each, (_ABOVE,))))
    return replace(price, window=window, long=tuple(sorted(tiers, key=lambda tier: tier[0])))


def _prices_of(path: Path, name: str, entry: Mapping[str, Any], others: tuple[str, ...]) -> Price:
    known = (*_FIELDS, *others)
    if unknown := sorted(map(str, entry.keys() - set(known))):
        raise InvalidArgument(f"{path}: {name} has the unknown key {unknown[0]!r}; the keys are {', '.join(known)}")
    for key, value in entry.items():
        if key in others:
            continue
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not (math.isfinite(value) and 0 <= value <= 1_000_000):
            raise InvalidArgument(f"{path}: {name}: {key} must be US dollars per million tokens, not {value!r}")
    if missing := [key for key in ("input", "output") if key not in entry]:
        raise InvalidArgument(f"{path}: {name} has no {missing[0]!r}")
    fresh = float(entry["input"])
    cached, written = (float(entry.get(key, fresh)) for key in ("cached_input", "cache_write"))
    return Price(fresh, float(entry["output"]), cached, written)
