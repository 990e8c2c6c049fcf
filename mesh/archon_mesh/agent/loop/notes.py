"""The loop's notes to the model beside the history: texts that are part of one request only."""

from __future__ import annotations

from typing import Final

LAST_STEP: Final = (
    "This is your last step: no tool can be called any more. Give your final answer now, from what you know, and say "
    "what is missing."
)
GOAL_REACHED: Final = "The goal is reached. Give your final answer now, from what you know."
GOAL_NOT_REACHED: Final = "Your answer does not reach the goal yet"
EMPTY_REPLY: Final = "Your last reply was empty. Call a tool, or give your final answer."
CUT: Final = (
    "Your last reply was cut off at its length limit. Continue it exactly where it ends; repeat nothing, and say "
    "nothing about the cut."
)
CUT_CALL: Final = (
    "Your last reply was cut off at its length limit within a tool call, which was not made. Make the call again, with "
    "shorter arguments."
)
MISMATCH: Final = "Your last answer does not match the JSON Schema that it has to match"
CORRECT_IT: Final = "Reply with the corrected answer, as JSON and nothing else."
REFUSED: Final = (
    "You declined the task. Do the part of it that you can do, in a smaller step if that helps, and say what you leave "
    "out and why."
)
