# An agent in Python: examples/polyglot/requirements. From the root of the repository:
#
#     docker build -f deploy/images/python.Dockerfile -t archon-agent-python:0.1.0 .
#
# For an agent of your own, replace its folder; the SDK is installed in locked versions. A container needs ARCHON_TLS, or
# ARCHON_INSECURE=1 in a network that is closed to others.

# For a release, name the base by its digest: --build-arg BASE=docker.io/library/python@sha256:...
ARG BASE=docker.io/library/python:3.12.12-slim-bookworm

FROM ${BASE} AS build
WORKDIR /src
COPY deploy/locks deploy/locks
RUN python -m venv --without-pip /opt/agent \
    && pip --python /opt/agent/bin/python install --no-cache-dir --require-hashes --only-binary :all: --no-deps \
      -r deploy/locks/image.txt \
    && pip install --no-cache-dir --require-hashes --only-binary :all: -r deploy/locks/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY sdk/python sdk/python
COPY sdk/conformance/cases sdk/conformance/cases
COPY mesh mesh
COPY services services
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /opt/wheels . \
    && pip --python /opt/agent/bin/python install --no-cache-dir --no-deps /opt/wheels/*.whl

# Nothing is written, so that the root can be read-only. No HEALTHCHECK: Kubernetes asks over gRPC.
FROM ${BASE} AS agent
COPY --from=build /opt/agent /opt/agent
COPY examples/polyglot/requirements /app
ENV PATH=/opt/agent/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    ARCHON_HOST=0.0.0.0 \
    ARCHON_PORT=7110
WORKDIR /app
USER 10001:10001
EXPOSE 7110
ENTRYPOINT ["python", "-P", "requirements.py"]
