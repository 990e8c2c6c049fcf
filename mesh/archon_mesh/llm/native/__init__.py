"""Models behind the own APIs of Google, Mistral and Amazon Bedrock, through the package pydantic-ai-slim."""
