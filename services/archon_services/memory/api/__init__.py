"""The gRPC API of the shared memory: MemoryGraphService and WorkingMemoryService."""
