"""Server-sent events: runs and the registry, watched once for all viewers (https://html.spec.whatwg.org/#server-sent-events)."""
