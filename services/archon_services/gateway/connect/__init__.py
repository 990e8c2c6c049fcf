"""Connect, gRPC-Web and JSON over HTTP for the RPCs of the mesh."""
