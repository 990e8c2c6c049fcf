"""The schema of files that declare agents; the JSON Schema for editors is generated from it."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from archon.identifiers import CAPABILITY, ROLE, VERSION
from archon.learning import MAX_VARIANTS, VARIANT
from archon.memory.long_term.context import HISTORY_PART, RETRIEVED_PART, TEMPLATE_PART
from archon.memory.long_term.entry import MAX_LIMIT
from archon.tools.owner.tool_owner import CALL_SECONDS as REMOTE_SECONDS
from archon.tools.shared_tool import MAX_NAME
from archon.types import MessageType
from archon_mesh.agent.config import SUBAGENT_SECONDS
from archon_mesh.core.people.rule import MAX_RULES
from archon_mesh.declared.arbiter_part import ArbiterPart
from archon_mesh.declared.part import Part
from archon_mesh.declared.rule_part import ToolRulePart
from archon_mesh.llm.base import CALL_TIMEOUT, IDLE_TIMEOUT
from archon_mesh.llm.retry import RETRIES
from archon_mesh.memory.automatic.settings import DEFAULT_BUDGET, DEFAULT_RECALLED
from archon_mesh.tools.engine import TIMEOUT
from archon_mesh.tools.mcp.source import CALL_SECONDS, CONNECT_SECONDS
from archon_mesh.tools.tool import MAX_RATE

IMPORT_PATTERN: Final = r"^[\w.]+:[\w.]+$"
ImportPath = Annotated[str, Field(pattern=IMPORT_PATTERN, description="import path: a module, a colon, a name in it")]


ROLE_PATTERN: Final = f"^{ROLE.pattern}$"
CAPABILITY_PATTERN: Final = f"^{CAPABILITY.pattern}$"
VERSION_PATTERN: Final = f"^{VERSION.pattern}$"
NAMESPACE_PATTERN: Final = r"^([A-Za-z_]\w*(\.[A-Za-z_]\w*)*)?$"
OPTIONAL_ROLE_PATTERN: Final = f"^({ROLE.pattern})?$"
TOPIC_PATTERN: Final = f"^(broadcast|type:({'|'.join(MessageType)}))$"
Topic = Annotated[str, Field(pattern=TOPIC_PATTERN, description="`broadcast` or `type:TYPE`")]
VariantName = Annotated[str, Field(pattern=f"^{VARIANT.pattern}$")]
NAME_PATTERN: Final = r"^[A-Za-z][\w-]*$"
OPTIONAL_NAME_PATTERN: Final = r"^([A-Za-z][\w-]*)?$"


class OrText(Part):
    """A part that may also be written as a text, which is then the value of the field named by `short`."""

    short: ClassVar[str] = ""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {cls.short: value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        return {"anyOf": [properties[cls.short], schema]}


class Imported(OrText):
    """A tool or a middleware, by import path."""

    short: ClassVar[str] = "import"

    import_: ImportPath = Field(alias="import")
    params: dict[str, Any] | None = Field(
        default=None, description="arguments, if it is a class or a function that creates the object"
    )


class ModelPart(OrText):
    """The model of an agent, and the models that answer in its place."""

    short: ClassVar[str] = "use"

    use: str = Field(
        default="",
        description="offline, openai/NAME, openai-responses/NAME, anthropic/NAME, google/NAME, mistral/NAME, "
        "bedrock/NAME, or one of these after text/; several, separated by commas, are a fallback chain; "
        "by default the caller's choice",
    )
    fallback: list[str] = Field(
        default_factory=list, description="models that are asked, in this order, if the one before them fails"
    )
    requests_per_minute: int | None = Field(
        default=None, ge=1, description="calls of `use` per minute; further ones wait, or are answered by `fallback`"
    )
    tokens_per_minute: int | None = Field(
        default=None, ge=1, description="tokens of `use` per minute, read and written; as for calls"
    )
    thinking: dict[str, Any] | None = Field(
        default=None,
        description="settings of the thinking of `use`, sent as they are: `thinking` of Anthropic, `reasoning` of "
        "openai-responses",
    )
    server: str | dict[str, Any] | None = Field(
        default=None,
        description="the family of servers that answers for openai/NAME (vllm, mistral, ...), or single keys of its "
        "profile; by default it follows from the URL and the model. Of other providers, the keys about files",
    )

    @model_validator(mode="after")
    def _check_use(self) -> ModelPart:
        if self.model_fields_set and not self.use and self.model_fields_set != {"use"}:
            raise ValueError("the key use is missing: a fallback or a limit needs a model")
        return self


class McpPart(Part):
    """An MCP server whose tools the agent has, as `SERVER.TOOL`: a program, or a URL."""

    command: str = Field(default="", description="the program that is started as the server")
    args: list[str] = Field(default_factory=list, description="its arguments")
    env: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="its environment, beside PATH, HOME, LANG, LC_ALL and TMPDIR; best from variables",
    )
    cwd: str = Field(default="", description="its working directory, relative to this file")
    url: str = Field(default="", description="the URL of a server, by streamable HTTP")
    headers: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="headers of each request, such as Authorization; best from variables",
    )
    timeout: float = Field(default=CALL_SECONDS, gt=0, description="seconds per call")
    connect_timeout: float = Field(default=CONNECT_SECONDS, gt=0, description="seconds to connect and list the tools")
    trusted: bool = Field(
        default=False, description="tools that the server calls destructive need not be allowed by their names"
    )
    may_ask: bool = Field(default=False, description="the server may ask the person behind the agent during a call")

    @model_validator(mode="after")
    def _check_kind(self) -> McpPart:
        if bool(self.command) == bool(self.url):
            raise ValueError("an MCP server has either a command or a url")
        if (self.url and (self.args or self.env or self.cwd)) or (self.command and self.headers):
            raise ValueError("args, env and cwd belong to a command, headers to a url")
        return self


class RemoteToolPart(OrText):
    """A tool that another role of the mesh shares; as a text, `TOOL` or `ROLE/TOOL`."""

    short: ClassVar[str] = "name"

    name: str = Field(min_length=1, max_length=MAX_NAME, description="its name, or its role, a slash and its name")
    role: str = Field(
        default="", pattern=OPTIONAL_ROLE_PATTERN, description="the role that shares it; by default the only one"
    )
    namespace: str = Field(
        default="", pattern=NAMESPACE_PATTERN, description="the namespace of its name here; by default none"
    )
    timeout: float = Field(default=REMOTE_SECONDS, gt=0, description="seconds per call")
    trusted: bool = Field(
        default=False, description="a tool whose owner calls it destructive need not be allowed by its name"
    )

    @model_validator(mode="after")
    def _check_role(self) -> RemoteToolPart:
        if "/" in self.name:
            if self.role:
                raise ValueError("the role is named twice: by `role`, and before the slash")
            role, _, name = self.name.partition("/")
            if not re.match(ROLE_PATTERN, role) or not name:
                raise ValueError(f"invalid name {self.name!r}: expected TOOL or ROLE/TOOL")
            self.role, self.name = role, name
        return self


class ToolPolicyPart(Part):
    """Which tools may be called, and how often."""

    allowed: list[str] | None = Field(
        default=None,
        description="names of tools, or patterns such as `math.*`; by default all that are not dangerous",
    )
    denied: list[str] = Field(default_factory=list, description="names or patterns; wins over `allowed`")
    at_most: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict, description="maximum calls per run, by tool"
    )


class MemoryPart(Part):
    """The long-term memory of an agent: relevant entries are recalled before each model call; each run is stored."""

    long_term: bool = Field(
        default=True,
        description="whether the agent has one: the memory service at ARCHON_MEMORY, or files below ARCHON_HOME",
    )
    budget: int = Field(
        default=DEFAULT_BUDGET, ge=100, description="tokens that history, memories and template of a request share"
    )
    history: float = Field(default=HISTORY_PART, ge=0, le=1, description="part of the budget for turns of earlier runs")
    retrieved: float = Field(default=RETRIEVED_PART, ge=0, le=1, description="part of the budget for memories")
    template: float = Field(
        default=TEMPLATE_PART, ge=0, le=1, description="part of the budget for system prompt and working memory"
    )
    limit: int = Field(
        default=DEFAULT_RECALLED, ge=1, le=MAX_LIMIT, description="memories of a request, besides preferences"
    )
    threshold: float | None = Field(
        default=None, ge=0, le=1, description="score that a memory needs; by default 0.7, or less if nothing reaches it"
    )
    half_life: float | None = Field(
        default=None,
        gt=0,
        description="days after which recency has half its value, by default 90; a memory service has its own",
    )
    window: int | None = Field(
        default=None,
        ge=100,
        description="the model's context window in tokens, near whose end the oldest turns are summarised; "
        "by default they are not",
    )
    compress_at: float = Field(
        default=0.7, gt=0, le=1, description="part of `window` from which on the oldest turns are summarised"
    )
    working_memory: bool = Field(default=False, description="shows the values of the run's storage to the model")
    ask_model: bool = Field(
        default=False, description="asks the model for preferences that the rules do not recognise, once for each run"
    )

    @model_validator(mode="after")
    def _check_parts(self) -> MemoryPart:
        if self.history + self.retrieved + self.template > 1 + 1e-9:
            raise ValueError("history, retrieved and template are parts of the budget: at most 1 in all")
        return self


class CapabilityPart(OrText):
    """A capability of the role, by which others find it."""

    short: ClassVar[str] = "id"

    id: str = Field(
        pattern=CAPABILITY_PATTERN,
        description="the id by which a submit or another role asks for it, such as book.search",
    )
    name: str = Field(default="", description="a name for people")
    description: str = Field(default="", description="its purpose, for callers and their models")
    tags: list[str] = Field(default_factory=list, description="words for a search")
    examples: list[str] = Field(default_factory=list, description="goals that it is meant for")
    input_modes: list[str] = Field(default_factory=list, description="media types that it takes, such as text/plain")
    output_modes: list[str] = Field(default_factory=list, description="media types that it answers with")


class EdgePart(OrText):
    """A role that this one depends on."""

    short: ClassVar[str] = "role"

    role: str = Field(pattern=ROLE_PATTERN, description="the name of the other role")
    policy: Literal["final_response_only", "tool_results", "full_history"] = Field(
        default="final_response_only", description="how much of its work is delivered"
    )


class ProfilePart(Part):
    """Facts about the role for callers and planners, beside its description, tools and capabilities."""

    instructions: str = Field(default="", max_length=4_000, description="how to give work to the role")
    prompt_template: str = Field(
        default="", max_length=4_000, description="a good input, with {name} for each value that the caller fills in"
    )
    expected_seconds: float = Field(default=0, ge=0, le=1e6, description="time of a typical task; 0: unknown")
    expected_cost: float = Field(
        default=0, ge=0, le=1e6, description="cost of a typical task in US dollars; 0: unknown"
    )
    expected_quality: float = Field(default=0, ge=0, le=1, description="quality of its answers by its own measure")
    message_types: dict[str, list[str]] = Field(
        default_factory=dict, description="message types that it may exchange, each with the other roles"
    )


class RolePart(Part):
    """How the agent is served as a role of the mesh; the role has the agent's name."""

    version: str = Field(
        default="0.1.0", pattern=VERSION_PATTERN, description="version of the role, which a submit may require"
    )
    capabilities: list[CapabilityPart] = Field(default_factory=list, description="its abilities, for others to find it")
    depends_on: list[EdgePart] = Field(default_factory=list, description="roles whose final answers it receives")
    coordinator: bool = Field(default=False, description="gets the other roles of the mesh as tools")
    stateful: bool = Field(default=False, description="remembers each session, on any instance")
    asks_credentials: bool = Field(
        default=False, description="asks a person who follows the run for credentials that its tools lack"
    )
    planner: bool = Field(
        default=False, description="makes plans of runs; neither delegations nor steps of plans go to it"
    )
    arbiter: ArbiterPart | None = Field(
        default=None, description="settles conflicts among the answers of steps; its model is one of the ways"
    )
    profile: ProfilePart | None = Field(default=None, description="facts about it for callers and planners")
    max_tasks: int = Field(default=8, ge=1, description="maximum number of concurrent tasks")
    tags: dict[str, str] = Field(default_factory=dict, description="further texts of the registration, by name")


class AgentPart(Part):
    """The part `agent` of an agent file: the name, the prompts and the limits of an agent."""

    name: str = Field(pattern=ROLE_PATTERN, description="also the name of its role, and its id in shared memory")
    description: str = Field(default="", description="purpose, for callers and their models")
    system_prompt: str = Field(default="", description="the system prompt of its model")
    prompt_variants: dict[VariantName, Annotated[str, Field(min_length=1)]] = Field(
        default_factory=dict,
        max_length=MAX_VARIANTS,
        description="other system prompts by name, among which a mesh that learns chooses one for each run; "
        "`system_prompt` is the variant `default`",
    )
    model: ModelPart = Field(default_factory=ModelPart, description="by default the caller's choice")
    tools: list[Imported] = Field(default_factory=list, description="functions and tools that its model may call")
    shared_tools: list[str] = Field(
        default_factory=list, description="tools of this agent that other agents may execute here, by name"
    )
    remote_tools: list[RemoteToolPart] = Field(
        default_factory=list, description="tools that other roles of the mesh share"
    )
    messages: bool | list[Topic] = Field(
        default=False,
        description="gives it tools by which it exchanges messages with the other agents of its run: true, or the "
        "topics that it reads besides the messages for its task, `broadcast` (the same as true) or `type:TYPE`",
    )
    mcp: dict[str, McpPart] = Field(
        default_factory=dict, description="MCP servers, by the name that is the namespace of their tools"
    )
    middlewares: list[Imported] = Field(default_factory=list, description="classes with hooks, in their order")
    memory: MemoryPart | None = Field(default=None, description="the long-term memory; by default there is none")
    sub_agents: dict[str, SubAgentPart] = Field(
        default_factory=dict, description="other agents, by the name under which this agent calls them"
    )
    max_iterations: int = Field(default=15, ge=1, description="model calls of a run; the last one must answer")
    max_repeats: int = Field(
        default=3, ge=0, description="how often in a row the same tool call may have the same result; 0: any number"
    )
    goal_check: ImportPath | None = Field(
        default=None,
        description="a function of the state and the answer (or None) that says whether the goal is reached",
    )
    tool_policy: ToolPolicyPart | None = Field(default=None, description="which tools may be called, and how often")
    rules: list[ToolRulePart] = Field(
        default_factory=list, max_length=MAX_RULES, description="when a person approves the call of a tool"
    )
    exit_on_success: list[str] = Field(default_factory=list, description="tools whose success ends the run")
    all_ancestors: bool = Field(default=False, description="shared memory delivers the answers of all ancestors")
    output: ImportPath | dict[str, Any] | None = Field(
        default=None,
        description="the type of the answer: a JSON Schema, or the import path of a type, such as a pydantic model; "
        "by default text",
    )
    temperature: float | None = Field(default=None, ge=0, le=2, description="by default the model's")
    max_tokens: int | None = Field(default=None, ge=1, description="limit of a reply, in tokens")
    timeout: float = Field(default=CALL_TIMEOUT, gt=0, description="seconds per model call in all")
    idle_timeout: float = Field(
        default=IDLE_TIMEOUT, gt=0, description="seconds without a chunk of the reply after which a model call ends"
    )
    first_token_timeout: float | None = Field(
        default=None,
        gt=0,
        description="seconds that the model may be silent before its first token; by default four times idle_timeout",
    )
    retries: int = Field(
        default=RETRIES, ge=0, description="how often a model call is made again after an error that may pass"
    )
    fallback_model: str = Field(
        default="",
        description="the model that answers if the other one keeps failing; by default none does",
    )
    tool_timeout: float = Field(default=TIMEOUT, gt=0, description="seconds per call of a tool without its own timeout")
    tool_quota: int | None = Field(
        default=None, ge=1, le=MAX_RATE, description="calls of all tools per minute; critical tools come first"
    )
    credentials: dict[str, str] = Field(
        default_factory=dict, repr=False, description="values that tools need, by name; best from variables"
    )
    max_running_subagents: int = Field(default=8, ge=1, description="concurrent calls of sub-agents")
    subagent_timeout: float = Field(
        default=SUBAGENT_SECONDS, gt=0, description="seconds per call of a local sub-agent, with its waits"
    )


class SubAgentPart(AgentPart):
    """An agent within another: declared here, in a file of its own, or a role of the mesh."""

    name: str = Field(
        default="", pattern=OPTIONAL_NAME_PATTERN, description="its name in events; by default its key in sub_agents"
    )
    file: str = Field(default="", description="a file that declares it, relative to this one")
    role: str = Field(default="", pattern=OPTIONAL_ROLE_PATTERN, description="a role of the mesh")
    stateless: bool = Field(default=False, description="each call runs on a copy, which is discarded")

    @model_validator(mode="after")
    def _check_kind(self) -> SubAgentPart:
        inline_fields = self.model_fields_set - {"file", "role", "stateless", "description", "timeout"}
        if bool(self.file) + bool(self.role) + bool(inline_fields) != 1:
            raise ValueError("a sub-agent is either declared here, or by a file, or is a role of the mesh")
        return self


class AgentFile(AgentPart):
    """A file that declares an agent."""

    role: RolePart = Field(default_factory=RolePart, description="how it is served by `archon serve`")


AgentPart.model_rebuild()

KEYS: Final = tuple(
    sorted(
        {
            field.alias or name
            for part in (
                SubAgentPart,
                AgentFile,
                RolePart,
                ArbiterPart,
                ProfilePart,
                EdgePart,
                CapabilityPart,
                ModelPart,
                ToolPolicyPart,
                McpPart,
                RemoteToolPart,
                MemoryPart,
                ToolRulePart,
                Imported,
            )
            for name, field in part.model_fields.items()
        }
    )
)
"""All keys of a file."""


def json_schema() -> dict[str, Any]:
    """Returns the JSON Schema (draft 2020-12) for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **AgentFile.model_json_schema(by_alias=True),
        "title": "An agent of Archon",
    }
