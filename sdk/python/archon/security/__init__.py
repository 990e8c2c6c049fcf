"""Callers, their credentials and their permissions.

tokens          signs and verifies tokens (JSON Web Tokens)
keys            the key that signs tokens, and the file of the public keys that verify them
credentials     the tokens that this process presents
mesh_folder     the folder of the mesh on this machine, from which programs take their token
spiffe          the ids of members in certificates
certificates    the certificate of this process
peer            the member that is called
secure_channel  channels and ports with mutual TLS
transport       whether connections are encrypted
policy          who may call which RPC
authenticator   verifies who calls a server
"""
