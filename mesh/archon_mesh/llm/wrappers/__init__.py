"""Model clients around model clients: retries, fallbacks, limits, a cache, and cassettes.

They compose in any order, and keep the inner client's chunks, price and calibration:

    model = FallbackModel([RetryModel(create_model("anthropic/claude-opus-5-5")), create_model("openai/gpt-6-sol")])
    model = RateLimitedModel(model, requests_per_minute=60, tokens_per_minute=100_000)

Timeouts need no wrapper: every call of an agent ends by its `timeout` and `idle_timeout` (`archon_mesh.llm.deadline`).
"""

from archon_mesh.llm.wrappers.budget import BudgetModel
from archon_mesh.llm.wrappers.cache import CachedModel
from archon_mesh.llm.wrappers.fallback import FallbackModel
from archon_mesh.llm.wrappers.rate_limit import RateLimitedModel
from archon_mesh.llm.wrappers.record import RecordingModel
from archon_mesh.llm.wrappers.replay import ReplayModel
from archon_mesh.llm.wrappers.retry import RetryModel

__all__ = [
    "BudgetModel",
    "CachedModel",
    "FallbackModel",
    "RateLimitedModel",
    "RecordingModel",
    "ReplayModel",
    "RetryModel",
]
