"""The gRPC API of the registry: RegistryService."""
