"""Logins: the tokens of a person for a context, from its OpenID provider.

stored        the file of a login
device_flow   signing in by a code on another device (RFC 8628)
grants        the tokens in an answer of a provider
renewal       keeps a login fresh by its refresh token
threads       the threads that keep logins fresh
credentials   presents a login to the services of its context alone
"""
