"""The messages of servers about a request that is too long for their model: data, by family of servers."""

from __future__ import annotations

from typing import Final

PHRASES: Final = (
    "context_length",  # OpenAI, Azure, Groq: the code context_length_exceeded
    "context window",  # OpenAI, MiniMax
    "maximum context",  # OpenAI, vLLM, DeepSeek, Mistral, OpenRouter
    "context length",  # LM Studio, Ollama
    "context size",  # llama.cpp: exceeds the available context size; exceed_context_size_error
    "context limit",  # Anthropic: input length and max_tokens exceed context limit
    "prompt is too long",  # Anthropic
    "input is too long",  # Bedrock
    "input token count",  # Gemini: exceeds the maximum number of tokens allowed
    "prompt token count",  # GitHub Models
    "maximum model length",  # vLLM
    "max_model_len",  # vLLM, SGLang
    "maximum prompt length",  # xAI
    "inputs` must have less than",  # TGI
    "inputs` tokens + `max_new_tokens`",  # TGI, Together
    "reduce the length of",  # OpenAI, Groq, Cerebras
    "exceeded model token limit",  # Moonshot
    "range of input length",  # DashScope
    "prompt exceeds max length",  # Zhipu
    "too many tokens",  # Cohere
    "context the overflows",  # LM Studio
)
"""In lower case."""


def is_overflow(text: str) -> bool:
    """Whether the words of a server say that a request is too long for the model."""
    lower = text.lower()
    return any(phrase in lower for phrase in PHRASES)
