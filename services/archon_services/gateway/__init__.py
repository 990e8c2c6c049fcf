"""The HTTP gateway of a mesh: one ASGI application for browsers and programs that speak HTTP alone."""
