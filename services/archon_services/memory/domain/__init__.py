"""Pure rules of the shared memory: publishing, scopes, the role graph, working memory."""
