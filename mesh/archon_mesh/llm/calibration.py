"""Corrects the estimates of tokens by the usage that providers report, model by model.

The rule of thumb of four characters per token is off by a factor that depends on the model and on the language of the
texts. The factor is the median of reported over estimated input tokens in the last calls, together with one 1.0 that
stands for the rule of thumb: a single odd call changes little, and after three calls the estimates follow the model.
"""

from __future__ import annotations

import math
from collections import deque
from statistics import median
from typing import Final

from archon_mesh.llm.base import ModelClient, ModelReply, ModelRequest, estimate_input

WINDOW: Final = 15
"""Calls of a model that count, the newest."""

MIN_TOKENS: Final = 100
"""Estimated tokens below which a call does not count: tokens added by the provider would weigh too much."""

LOWEST: Final = 0.25
HIGHEST: Final = 4.0
"""Bounds of the factor."""


class Calibration:
    """The factor of the model behind one client; the client has it as `calibration`."""

    def __init__(self) -> None:
        self._ratios: deque[float] = deque(maxlen=WINDOW)

    def observe(self, request: ModelRequest, reply: ModelReply) -> None:
        """Takes in the usage that a provider reported; usage that is itself an estimate does not count, nor does the
        usage of a request with files, whose tokens say nothing about texts."""
        if any(message.files for message in request.messages):
            return
        estimated = estimate_input(request)
        if reply.usage.estimated or estimated < MIN_TOKENS or reply.usage.input_tokens <= 0:
            return
        self._ratios.append(min(HIGHEST, max(LOWEST, reply.usage.input_tokens / estimated)))

    @property
    def factor(self) -> float:
        """The factor by which estimates of the model's input are multiplied, between LOWEST and HIGHEST."""
        return median([1.0, *self._ratios])


def calibration_of(model: ModelClient) -> Calibration | None:
    """Returns the calibration of a client; None if it has none."""
    calibration = getattr(model, "calibration", None)
    return calibration if isinstance(calibration, Calibration) else None


def calibrated_input(model: ModelClient, request: ModelRequest) -> int:
    """Estimates the tokens of a request, corrected by earlier calls of the client."""
    calibration = calibration_of(model)
    return math.ceil(estimate_input(request) * (calibration.factor if calibration is not None else 1.0))
