# An agent in Go: examples/polyglot/designer. From the root of the repository:
#
#     docker build -f deploy/images/go.Dockerfile -t archon-agent-go:0.1.0 .
#
# For an agent of your own, replace its folder. A container needs ARCHON_TLS, or ARCHON_INSECURE=1 in a network that is
# closed to others.

# For a release, name both by their digests.
ARG BUILD=docker.io/library/golang:1.24.11-bookworm
ARG BASE=gcr.io/distroless/static-debian12:nonroot

FROM ${BUILD} AS build
WORKDIR /src
COPY sdk/go/go.mod sdk/go/go.sum sdk/go/
COPY examples/polyglot/designer/go.mod examples/polyglot/designer/go.sum examples/polyglot/designer/
# The modules of go.sum, in a layer that lasts as long as they do.
RUN go -C examples/polyglot/designer mod download
COPY sdk/go sdk/go
COPY examples/polyglot/designer examples/polyglot/designer
RUN CGO_ENABLED=0 go -C examples/polyglot/designer build -mod=readonly -trimpath -ldflags="-s -w" -o /out/agent .

# A program without libraries, and the certificates of public authorities: no shell. No HEALTHCHECK: Kubernetes asks over gRPC.
FROM ${BASE} AS agent
COPY --from=build /out/agent /app/agent
ENV ARCHON_HOST=0.0.0.0 \
    ARCHON_PORT=7110
WORKDIR /app
USER 10001:10001
EXPOSE 7110
ENTRYPOINT ["/app/agent"]
