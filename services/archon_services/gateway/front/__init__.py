"""The front of the HTTP gateway: every request passes it before a room gets it."""
