"""The registry: who is alive, what each can do, and whose answers each role depends on."""

from archon_services.registry.app import RegistrySettings, registry_app

__all__ = ["RegistrySettings", "registry_app"]
