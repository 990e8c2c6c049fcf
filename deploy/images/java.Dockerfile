# An agent in Java: examples/polyglot/reviewer. From the root of the repository:
#
#     docker build -f deploy/images/java.Dockerfile -t archon-agent-java:0.1.0 .
#
# For an agent of your own, replace its folder. A container needs ARCHON_TLS, or ARCHON_INSECURE=1 in a network that is
# closed to others.

# For a release, name both by their digests.
ARG BUILD=docker.io/library/maven:3.9.11-eclipse-temurin-17
ARG BASE=docker.io/library/eclipse-temurin:17.0.17_10-jre-noble

FROM ${BUILD} AS build
WORKDIR /src
COPY protos protos
COPY sdk/java sdk/java
RUN mvn -q -B -f sdk/java/pom.xml install -Dmaven.test.skip=true
COPY examples/polyglot/reviewer examples/polyglot/reviewer
RUN mvn -q -B -f examples/polyglot/reviewer/pom.xml package dependency:copy-dependencies -DincludeScope=runtime

# Nothing is written, so that the root can be read-only. No HEALTHCHECK: Kubernetes asks over gRPC.
FROM ${BASE} AS agent
COPY --from=build /src/examples/polyglot/reviewer/target/dependency /app/lib
COPY --from=build /src/examples/polyglot/reviewer/target/classes /app/classes
ENV ARCHON_HOST=0.0.0.0 \
    ARCHON_PORT=7110
WORKDIR /app
USER 10001:10001
EXPOSE 7110
# Memory by the limit of the container; no file of counters in /tmp.
ENTRYPOINT ["java", "-XX:MaxRAMPercentage=60", "-XX:-UsePerfData", "-cp", "/app/classes:/app/lib/*", "example.Reviewer"]
