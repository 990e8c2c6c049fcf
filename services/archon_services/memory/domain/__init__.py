"""Rules of the shared memory: publishing, scopes, working memory. Pure."""
