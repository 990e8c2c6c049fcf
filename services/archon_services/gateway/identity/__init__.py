"""Who makes a request over HTTP: a bearer token of a program, or the session of a browser."""
