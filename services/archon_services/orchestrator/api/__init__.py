"""The OrchestratorService: requests are validated, run and answered here."""
