"""The changes of a prompt that options of `archon playground` and an editor make."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.text_input import decode_utf8

if TYPE_CHECKING:
    from archon_mesh.playground import Variant

SYSTEM: Final = "system"
INPUT: Final = "input"
DEFAULT_EDITOR: Final = "vi"


def with_texts(variant: Variant, values: Iterable[str]) -> Variant:
    """Returns the variant with other texts of its parts, of values such as system=TEXT, input=@FILE and 3=TEXT. Raises
    CliError if a value has another form, and NotFound if the prompt has no such part."""
    for value in values:
        part, equals, text = value.partition("=")
        part = part.strip()
        if not equals or (part not in (SYSTEM, INPUT) and not part.isdecimal()):
            raise CliError(
                f"invalid --set {value!r}: expected system=TEXT, input=TEXT or the number of a message, such as 3=TEXT",
                code=USAGE,
            )
        text = _text(text)
        if part == SYSTEM:
            variant = variant.with_system(text)
        elif part == INPUT:
            variant = variant.with_input(text)
        else:
            variant = variant.with_message(int(part), text)
    return variant


def with_replacements(variant: Variant, values: Iterable[str]) -> Variant:
    """Returns the variant with texts replaced, of values OLD=NEW. Raises CliError if a value has another form, and
    NotFound if no message has the text."""
    for value in values:
        old, equals, new = value.partition("=")
        if not equals or not old:
            raise CliError(f"invalid --replace {value!r}: expected OLD=NEW, where OLD has no `=`", code=USAGE)
        variant = variant.replaced(old, new)
    return variant


def edited_by_hand(variant: Variant) -> Variant:
    """Opens the prompt in the editor of VISUAL or EDITOR, and reads it when the editor has ended. Raises CliError if
    the editor fails, and if the text is no variant any more; its file is then kept, and named."""
    from archon.errors import ArchonError
    from archon_mesh.playground import parse_variant, variant_text

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or DEFAULT_EDITOR
    descriptor, name = tempfile.mkstemp(prefix="archon-prompt-", suffix=".yaml")  # private to the user
    file = Path(name)
    with os.fdopen(descriptor, "w", encoding="utf-8") as output:
        output.write(variant_text(variant))
    try:
        code = subprocess.run([*shlex.split(editor), name], check=False).returncode
    except (OSError, ValueError) as error:
        file.unlink()
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CliError(f"cannot start the editor {editor!r}: {reason}", hint="Set EDITOR.", code=USAGE) from None
    if code:
        file.unlink()
        raise CliError(f"the editor {editor!r} ended with exit code {code}: nothing was sent")
    try:
        edited = parse_variant(decode_utf8(file.read_bytes(), name), name)
    except OSError as error:
        raise CliError(f"cannot read {name}: {error.strerror}") from None
    except ArchonError as error:
        raise CliError(
            error.message, hint=f"The text is still in {name}: --variant {name} reads it.", code=USAGE
        ) from None
    file.unlink()
    return edited


def _text(text: str) -> str:
    if not text.startswith("@"):
        return text
    file = Path(text[1:])
    try:
        return decode_utf8(file.read_bytes(), str(file)).removesuffix("\n")
    except OSError as error:
        raise CliError(f"cannot read {file}: {error.strerror}", code=USAGE) from error
