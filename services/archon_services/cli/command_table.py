"""The commands of `archon` by name. A process imports only the one that is called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typing_extensions import override

COMMANDS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "up": ("up:up", "Start a mesh on this machine."),
        "down": ("down:down", "Stop the mesh in ARCHON_HOME."),
        "status": ("status:status", "Show the processes of the mesh in ARCHON_HOME."),
        "logs": ("logs:logs", "Print the logs of the mesh in ARCHON_HOME, also after it was stopped."),
        "restart": ("restart:restart", "Restart the instances of roles, one after the other."),
        "scale": ("scale:scale", "Change the number of instances of roles until the mesh stops."),
        "run": ("run:run", "Run a goal and print its progress, its answer and a summary."),
        "ask": ("ask:ask", "Answer a query."),
        "demo": (
            "demo:demo",
            "Run three agents over a log, kill one of them and then the orchestrator, and get the answer all the same.",
        ),
        "serve": (
            "serve:serve",
            "Serve an agent from a YAML or Python file, another mesh, or an A2A agent, as a role of the mesh.",
        ),
        "chat": ("chat:chat", "Chat with an agent."),
        "mcp": (
            "mcp:mcp",
            "Offer the tools of an agent, resources and prompts as an MCP server, with the agent's tool policy.",
        ),
        "agents": (
            "agents:agents",
            "List the registered instances of all roles: tasks in progress of the most that the instance takes, "
            "and the time since it has last renewed its registration (heartbeat).",
        ),
        "tools": (
            "tools:tools",
            "List the tools of all roles: their calls since the process of their instance started, and how they ended.",
        ),
        "graph": ("graph:graph", "Show the dependencies between roles: which one uses whose answers."),
        "runs": ("runs:runs", "List runs, the newest first."),
        "show": ("show:show", "Show the current state of a run, its tasks and its answer."),
        "watch": ("watch:watch", "Follow a run to its end."),
        "why": (
            "why:why",
            "Say why each attempt of a run went to its instance: which instances were compared by load and "
            "record, why it was made again, and which rule of the plan took part.",
        ),
        "explain": (
            "explain:explain",
            "Explain a run, from its events alone: its goal, its work, its end, and how sure the answer is.",
        ),
        "diff": (
            "diff:diff",
            "Compare two runs side by side: tasks, answers, tool calls, prompts, cost and time.",
        ),
        "provenance": (
            "provenance:provenance",
            "Show the sources of an answer of a run, back to the goal: answers, messages, memory, calls, people.",
        ),
        "messages": ("messages:messages", "List the messages between the agents of a run, and who has read them."),
        "cancel": ("cancel:cancel", "Cancel a run."),
        "rate": ("rate:rate", "Rate a run that has ended."),
        "mark": ("mark:mark", "Mark a run as of interest, for the rules of retention; --remove removes its marks."),
        "learning": (
            "learning:learning",
            "Show, approve and revert the weights that the mesh has learned of outcomes.",
        ),
        "inbox": (
            "inbox:inbox",
            "List the open questions of all runs, those that expire first at the top; with --answer, answer them.",
        ),
        "respond": ("respond:respond", "Answer a question of a run; `archon inbox` lists the questions of all runs."),
        "share": ("share:share", "Print a read-only link to a run, or revoke one."),
        "pause": ("pause:pause", "Pause a run until `archon resume`."),
        "resume": ("resume:resume", "Resume a paused run."),
        "rerun": (
            "rerun:rerun",
            "Continue an ended run in a new run, or execute tasks of it again, with all that used their answers.",
        ),
        "fork": (
            "fork:fork",
            "Fork a run at one of its events, with other inputs, answers or another goal, in a new run.",
        ),
        "trace": (
            "trace:trace",
            "Show how the time of a run was spent: a bar for each attempt, call and delegation, and the critical path.",
        ),
        "verify": ("verify:verify", "Verify that the history of a run is as the orchestrator wrote it."),
        "export": ("export:export", "Write a run as one file: its history, its recorded calls, its published memory."),
        "replay": (
            "replay:replay",
            "Replay the file of a run: decide it again by today's engine, and run it again from the file.",
        ),
        "debug": (
            "debug:debug",
            "Step through a run, forwards and backwards, with its prompts, memory and frames; hold it at breakpoints.",
        ),
        "quotas": ("quotas:quotas", "Show the quotas of your tenant and of yourself, with their use: used/limit."),
        "prompts": (
            "prompts:prompts",
            "Print the model calls of a run so far, message by message: its origin and its tokens.",
        ),
        "playground": (
            "playground:playground",
            "Change a recorded prompt, send it again, and compare the answers with the recorded one.",
        ),
        "dataset": ("dataset:dataset", "Make data sets for `archon eval` of recorded runs."),
        "eval": ("eval:eval_", "Evaluate the cases of a data set, and compare the results with a baseline."),
        "login": ("login:login", "Sign in at the OpenID provider of a mesh, in a browser on any machine."),
        "logout": (
            "logout:logout",
            "End the login of a context: its provider revokes it, if it can, and its file is removed.",
        ),
        "whoami": (
            "whoami:whoami",
            "Show as whom commands call the mesh, until when, and where the token or the certificate comes from.",
        ),
        "doctor": ("doctor:doctor", "Find problems of the installation and the mesh."),
        "plan": (
            "plan:plan",
            "Print the plan that a planner makes for a GOAL, without executing it; show or edit the plan of a run.",
        ),
        "conformance": (
            "conformance:conformance",
            "Hold an SDK, or an agent over stubs, to the contract: about 1,200 cases.",
        ),
        "new": ("new:new", "Write the files of a new agent."),
        "audit": ("audit:audit", "Read and verify the audit log: who caused which action, on whose behalf."),
        "workflow": (
            "workflow:workflow",
            "Run templates of plans, which are YAML files in ARCHON_WORKFLOWS, by default `workflows` here and in "
            "ARCHON_HOME.",
        ),
        "schedule": (
            "schedule:schedule",
            "Submit runs at times: by cron in a time zone, at intervals, or once.",
        ),
        "hook": ("hook:hook", "Submit runs for signed webhooks: POST /hooks/NAME at the HTTP gateway."),
        "context": ("context:context", "Name meshes, and choose the one that commands use."),
        "token": ("token:token", "Print a token of the mesh in ARCHON_HOME, for calls from elsewhere."),
        "policy": ("policy:policy", "Show who may call which RPC of the mesh."),
        "certs": ("certs:certs", "Issue certificates for mutual TLS: one for each service, agent and person."),
        "memory": (
            "long_term:memory",
            "Read, publish and clear the shared memory of a session or a run; search and keep long-term memory.",
        ),
    }
)
"""The commands in the order of `archon --help`: the module and the attribute below `commands`, and the line of help,
which is the first sentence of the docstring."""


def load_command(name: str) -> Any:
    """Imports a command and returns it: a function, or a Typer of further commands."""
    module, attribute = COMMANDS[name][0].split(":")
    return getattr(import_module(f"archon_services.cli.commands.{module}"), attribute)


class CommandTable(TyperGroup):
    """Group of the commands in COMMANDS: it imports a command when it is called, and lists and completes the names of
    all without an import. All commands together take 0.2 s to import."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        names = {name: TyperCommand(name, help=text) for name, (_, text) in COMMANDS.items()}
        self._names = TyperGroup(name=self.name, commands={**names}, add_help_option=False)
        self._loaded: dict[str, Any] = {}
        self.commands = {**names}  # Typer's lists and suggestions read the keys

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS and cmd_name not in self._loaded:
            self._loaded[cmd_name] = self.commands[cmd_name] = _parser(cmd_name)
        return super().get_command(ctx, cmd_name)

    @override
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        self._names.format_commands(ctx, formatter)

    @override
    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        names = self._names.shell_complete(typer.Context(self._names), incomplete)
        return [*names, *super(TyperGroup, self).shell_complete(ctx, incomplete)]  # the options, without commands


def _parser(name: str) -> Any:
    """Returns the parser of a command, built as Typer builds it for a program with all of them."""
    command = load_command(name)
    program = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    if isinstance(command, typer.Typer):
        program.add_typer(command, name=name)
    else:
        program.command(name)(command)
    return typer.main.get_group(program).commands[name]
