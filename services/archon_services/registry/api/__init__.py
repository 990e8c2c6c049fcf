"""The RegistryService on the wire."""
