"""Tokens of an OpenID provider, which says who people and programs are.

settings   which provider, and the kinds of callers by their groups
endpoints  the addresses of a provider (OpenID Connect Discovery)
http       requests to a provider: bounded, without redirects
key_set    the public keys of a provider (JWKS)
caller     the caller that the claims of a token name
provider   the keys of a provider, kept fresh, and the verification of its tokens
"""
