"""Callers, their credentials and their permissions.

principal       the caller of an RPC, whose credentials were verified
tokens          signs and verifies tokens (JSON Web Tokens)
keys            the key that signs tokens, and the file of the public keys that verify them
credentials     the tokens that this process presents
mesh_folder     the folder of the mesh on this machine, from which programs take their token
policy          who may call which RPC
authenticator   verifies who calls a server
"""
