# An agent in TypeScript: examples/polyglot/implementer. From the root of the repository:
#
#     docker build -f deploy/images/typescript.Dockerfile -t archon-agent-typescript:0.1.0 .
#
# For an agent of your own, replace its folder. A container needs ARCHON_TLS, or ARCHON_INSECURE=1 in a network that is
# closed to others.

# For a release, name the base by its digest: --build-arg BASE=docker.io/library/node@sha256:...
ARG BASE=docker.io/library/node:22.21.1-bookworm-slim

FROM ${BASE} AS build
WORKDIR /src
COPY sdk/typescript sdk/typescript
RUN npm --prefix sdk/typescript ci --no-audit --no-fund --ignore-scripts && npm --prefix sdk/typescript run build
COPY examples/polyglot/implementer examples/polyglot/implementer
# The packages of package-lock.json, without those for development once the program is built.
RUN npm --prefix examples/polyglot/implementer ci --no-audit --no-fund --ignore-scripts \
    && npm --prefix examples/polyglot/implementer run build \
    && npm --prefix examples/polyglot/implementer prune --omit=dev --no-audit --no-fund --ignore-scripts \
    && npm --prefix sdk/typescript prune --omit=dev --no-audit --no-fund --ignore-scripts

# The SDK is beside the agent as in the repository, because package.json names it by its path. Nothing is written, so that
# the root can be read-only. No HEALTHCHECK: Kubernetes asks over gRPC.
FROM ${BASE} AS agent
COPY --from=build /src/sdk/typescript/package.json /app/sdk/typescript/package.json
COPY --from=build /src/sdk/typescript/node_modules /app/sdk/typescript/node_modules
COPY --from=build /src/sdk/typescript/dist /app/sdk/typescript/dist
COPY --from=build /src/examples/polyglot/implementer /app/examples/polyglot/implementer
ENV NODE_ENV=production \
    ARCHON_HOST=0.0.0.0 \
    ARCHON_PORT=7110
WORKDIR /app/examples/polyglot/implementer
USER 10001:10001
EXPOSE 7110
ENTRYPOINT ["node", "dist/implementer.js"]
