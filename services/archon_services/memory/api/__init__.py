"""The MemoryGraphService and the WorkingMemoryService on the wire."""
