"""The registry: which instances are alive, what each can do, and which roles depend on which."""

from archon_services.registry.app import registry_app
from archon_services.registry.settings import RegistrySettings

__all__ = ["RegistrySettings", "registry_app"]
