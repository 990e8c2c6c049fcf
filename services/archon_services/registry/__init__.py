"""The registry: which instances are alive, their capabilities, and the dependencies between roles."""

from archon_services.registry.app import registry_app
from archon_services.registry.settings import RegistrySettings

__all__ = ["RegistrySettings", "registry_app"]
