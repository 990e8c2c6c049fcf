"""Replies of the offline model: recognises the task in the prompt, and writes the reply from the material."""

from __future__ import annotations

import re
from collections.abc import Sequence

from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm.offline_material import Component, Material, Requirement, read_material
from archon_mesh.llm.offline_text import find_demands, salient_words, shorten

NOTICE = "Offline model: plain text analysis of the messages given, no language model was asked."

_EXCERPT_WORDS = 60

# The first match in the prompt decides, because a prompt names its own task before those of other roles.
_TASKS = {
    "requirements": re.compile(
        r"\b(?:extract|elicit|gather|collect|identif|analy[sz]|list|find|derive|number|state|capture)\w*\s+"
        r"(?:(?!for\b|per\b|components?\b)\w+\s+){0,4}?requirements?\b"
        r"|\byou are (?:\w+ ){0,3}?requirements\b|\brequirements? (?:analyst|engineer)",
        re.IGNORECASE,
    ),
    "design": re.compile(
        r"\b(?<!the )(?<!a )(?<!its )(?<!their )(?<!this )design(?:s|ing)?\s+(?:\w+\s+){0,5}?"
        r"(?:components?|systems?|architecture|software|solution|parts|modules?|services?)\b"
        r"|\b(?:nam|propos|deriv|choos|defin|assign|list)(?:e|es|s|ing)?\s+(?:\w+\s+){0,4}?components?\b"
        r"|\byou (?:are (?:\w+ ){0,3}?(?:designer|architect)|design)\b",
        re.IGNORECASE,
    ),
    "implementation": re.compile(
        r"\b(?:writ|creat|produc|plan|propos|draft|sketch)\w*\s+(?:\w+\s+){0,5}?(?:implementation|code|skeleton)\b"
        r"|\byou (?:are (?:\w+ ){0,3}?(?:implementer|implementor|developer|programmer|coder)|implement)\b"
        r"|\bimplement(?:s|ing)?\s+(?:the|a|an|each|every|what|it|this|all)\b",
        re.IGNORECASE,
    ),
}


def write_reply(messages: Sequence[ChatMessage]) -> str:
    """Returns the reply to a conversation: a notice that it is from this model, and the answer."""
    material = read_material(messages)
    match task_of(material.prompt):
        case "requirements":
            body = _write_requirements(material)
        case "design":
            body = _write_design(material)
        case "implementation":
            body = _write_implementation(material)
        case _:
            body = _write_summary(material)
    return f"{NOTICE}\n\n{body}"


def task_of(prompt: str) -> str | None:
    """Returns requirements, design or implementation, or None for any other task."""
    positions = {task: match.start() for task, pattern in _TASKS.items() if (match := pattern.search(prompt))}
    return min(positions, key=positions.__getitem__, default=None)


def _write_requirements(material: Material) -> str:
    demands = find_demands(material.query)
    if not demands:
        return "No sentence of the text demands anything, so there is no requirement."
    return "\n".join(f"R{number}. {sentence}" for number, sentence in enumerate(demands, start=1))


def _write_design(material: Material) -> str:
    if not material.requirements:
        return "There is no requirement in my shared context, so I name no component."
    names = _unique([_component_name(each) for each in material.requirements])
    return "\n".join(
        f"C{number}. {name} — covers {each.label}: {shorten(each.text, 8)}"
        for number, (name, each) in enumerate(zip(names, material.requirements, strict=True), start=1)
    )


def _write_implementation(material: Material) -> str:
    requirements, source = list(material.requirements), ""
    if not requirements and not material.components:
        demands = find_demands(material.query)
        requirements = [Requirement(number, text) for number, text in enumerate(demands, start=1)]
        source = "My shared context has no requirements: I work from the task as it was given.\n\n"
        if not requirements:
            return f"{source}It demands nothing that I can find: no code. {_excerpt(material.query)}"
    elif not material.components:
        source = "My shared context has no design: I work from the requirements alone.\n\n"
    parts = _parts(requirements, material.components)
    plan = [f"{number}. {_plan_line(*part)}" for number, part in enumerate(parts, start=1)]
    code = [_code(*part) for part in parts]
    return f"{source}Plan\n\n" + "\n".join(plan) + "\n\nCode\n\n```python\n" + "\n\n\n".join(code) + "\n```"


def _write_summary(material: Material) -> str:
    """Returns the material, shortened, for an unknown task."""
    lines = ["I know no method for this task; this is the material I was given, shortened."]
    if material.query:
        lines.append(f"Task: {_excerpt(material.query)}")
    lines += [f"From {role}: {_excerpt(text)}" for role, text in material.shared]
    lines += [f"Tool result: {_excerpt(text)}" for text in material.tool_results]
    return "\n".join(lines if len(lines) > 1 else ["I was given no material."])


Part = tuple[Requirement | None, Component | None]


def _parts(requirements: Sequence[Requirement], components: Sequence[Component]) -> list[Part]:
    """Pairs each requirement with each component that covers it, then adds the components that cover none of them."""
    by_label: dict[str, list[Component]] = {}
    for component in components:
        for label in component.covers:
            by_label.setdefault(label, []).append(component)
    labels = {each.label for each in requirements}
    parts: list[Part] = [(each, component) for each in requirements for component in by_label.get(each.label, [None])]
    return parts + [(None, each) for each in components if labels.isdisjoint(each.covers)]


def _plan_line(requirement: Requirement | None, component: Component | None) -> str:
    goal = f"meets {requirement.label}: {requirement.text}" if requirement else ""
    if component is None:
        return f"Write the part that {goal}"
    return f"Write {component.label} {component.name}, which {goal or f'the design says {component.remark}'}"


def _code(requirement: Requirement | None, component: Component | None) -> str:
    cited = []
    if component:
        remark = "" if requirement else f" {component.remark}"
        cited.append(f"# {component.label} {component.name}{remark}")
    if requirement:
        cited.append(f"# {requirement.label}: {requirement.text}")
    labels = " ".join(each.label for each in (requirement, component) if each)
    todo = f'raise NotImplementedError("{labels}")'
    if component is None:
        assert requirement is not None
        head = [f"def meet_r{requirement.number}() -> None:", f"    {todo}"]
    else:
        head = [f"class {component.name}:", "    def run(self) -> None:", f"        {todo}"]
    return "\n".join([*cited, *head])


def _component_name(requirement: Requirement) -> str:
    words = salient_words(requirement.text, 3)
    name = "".join(word[:1].upper() + word[1:24] for word in words) + "Service"
    return name if words and name.isidentifier() else f"Requirement{requirement.number}Service"


def _unique(names: Sequence[str]) -> list[str]:
    """Returns the names with 2, 3, ... appended to duplicates."""
    taken: set[str] = set()
    counts: dict[str, int] = {}
    result = []
    for name in names:
        unique = name
        while unique in taken:
            counts[name] = counts.get(name, 1) + 1
            unique = f"{name}{counts[name]}"
        taken.add(unique)
        result.append(unique)
    return result


def _excerpt(text: str) -> str:
    return shorten(text.removeprefix(NOTICE), _EXCERPT_WORDS)
