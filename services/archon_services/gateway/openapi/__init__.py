"""The OpenAPI document of the HTTP gateway."""
