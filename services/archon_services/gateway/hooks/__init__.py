"""Webhooks that submit runs."""
