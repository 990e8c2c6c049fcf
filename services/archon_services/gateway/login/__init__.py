"""Logins of browsers: by a one-time link of the command line, or at an OpenID provider."""
