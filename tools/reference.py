"""Writes docs/reference from the code: `.venv/bin/python tools/reference.py`; `--check` only compares."""  # noqa: INP001

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click
import typer

sys.path.insert(0, str(Path(__file__).parent))  # also when it is read and not started
from doors import gate_page, http_page
from tables import code, table

from umbel.cli import follow, plan
from umbel.cli import main as command_line
from umbel.documents import schema
from umbel.errors import DocumentError, RequestError, SecurityError, WorldError
from umbel.model import event, kubernetes
from umbel.model.document import LABEL_VALUE_PATTERN, NAME_PATTERN
from umbel.model.federation import HOST_PATTERN, VERSION_PATTERN

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
COMMAND = ".venv/bin/python tools/reference.py"
FAMILIES = {
    "U1": (DocumentError, "The document is wrong"),
    "U2": (WorldError, "The machine, the network or Flower is not as needed"),
    "U3": (RequestError, "Asked for something that is not there or not allowed"),
    "U4": (SecurityError, "Identity, keys, certificates, tokens"),
}
_FORMS = {
    NAME_PATTERN: "a name: a-z, 0-9, -",
    LABEL_VALUE_PATTERN: "a label's value",
    HOST_PATTERN: "a host name or IP address",
    VERSION_PATTERN: "such as 1.41",
    kubernetes.QUANTITY_PATTERN: "such as 500m or 4Gi",
    kubernetes.IMAGE_PATTERN: "an image's name",
    kubernetes.URL_PATTERN: "an address that begins with http:// or https://",
    kubernetes.PATH_PATTERN: "an absolute path",
    kubernetes.COUNT_PATTERN: "such as 25%",
    r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$": "a host name in lower case",
}
_WORDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
}

CLI_INTRODUCTION = """\
Answers go to stdout, talk goes to stderr. `-o json` prints the model itself. Colours and progress
bars are for terminals only; `NO_COLOR` switches colours off.
"""
DOCUMENT_INTRODUCTION = """\
One YAML document declares one federation. An unknown key is a mistake. The same as JSON Schema:
[federation.schema.json](federation.schema.json), or `umbel schema`.
"""
EVENTS_INTRODUCTION = """\
A run's events are JSON lines in `events.jsonl`, one file at the hub and one at each site that has
something to tell. A reader skips kinds and keys that it does not know.
"""

Schema = dict[str, Any]


def pages() -> dict[Path, str]:
    """Give every generated file and what it must hold."""
    made = {
        "cli.md": cli_page(),
        "document.md": document_page(),
        "errors.md": errors_page(),
        "events.md": events_page(),
        "http-api.md": http_page(),
        "gate-routes.md": gate_page(),
    }
    note = f"<!-- Made from the code by `{COMMAND}`. Change the code, not this file. -->\n\n"
    found = {FOLDER / name: note + text.rstrip() + "\n" for name, text in made.items()}
    found[FOLDER / "federation.schema.json"] = json.dumps(schema(), indent=2) + "\n"
    return found


# The command line


def cli() -> click.Group:
    """Give the whole command line, every command loaded."""
    app = command_line.app
    if not app.registered_commands:
        for name in command_line.COMMANDS:
            importlib.import_module(f"umbel.cli.{name}").register(app)
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)  # noqa: S101  # several commands make a group
    return group


def cli_page() -> str:
    """Describe every command."""
    group = cli()
    shown = {name: found for name, found in group.commands.items() if not found.hidden}
    names = [name for name in command_line.COMMANDS if name in shown]
    links = "\n".join(f"- [`umbel {name}`](#umbel-{name}): {_first(shown[name])}" for name in names)
    parts = [
        "# The command line\n",
        CLI_INTRODUCTION,
        links + "\n",
        "## Exit status\n",
        table(["status", "meaning"], exit_rows()),
        "## umbel\n",
        _parameters(group),
        "## Environment\n",
        table(["variable", "meaning"], ENVIRONMENT),
        *(_command(name, shown[name]) for name in names),
    ]
    return "\n".join(parts)


ENVIRONMENT = (
    ("`UMBEL_HOME`", "Where state, keys and logs are; else `$XDG_DATA_HOME/umbel`, else `~/.local/share/umbel`."),
    ("`UMBEL_FEDERATION`", "The federation that is meant when there are several."),
    ("`NO_COLOR`", "Any value: no colours."),
)  # fmt: skip


def exit_rows() -> list[tuple[str, str]]:
    """List what a command's exit status means."""
    stopped = next(code for status, code in follow.STATUSES.items() if status == "stopped")
    return [
        ("0", "Done. `plan`: nothing to do. `status`: ready. `run`: the run completed."),
        (str(WorldError.exit_status), "It did not work (U2xx, U4xx). `run`: the run failed."),
        (
            str(DocumentError.exit_status),
            "The document, the request or the command line is wrong (U1xx, U3xx).",
        ),
        (str(stopped), "`run`: the run was stopped."),
        (str(plan.CHANGES), "`plan`: there are changes."),
        ("130", "Ctrl-C."),
    ]


def _first(command: click.Command) -> str:
    return inspect.cleandoc(command.help or "").split("\n")[0]


def _command(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"umbel {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [
        f"## umbel {name}\n",
        inspect.cleandoc(command.help or "") + "\n",
        f"```text\numbel {name} {usage}\n```\n",
        _parameters(command),
    ]
    if command.epilog:
        parts.append(_epilog(command.epilog))
    return "\n".join(parts)


def _epilog(text: str) -> str:
    """Show the indented lines as an example, the others as text."""
    text = text.replace("\n\n\b\n", "\n\n")  # what keeps lines apart in a terminal
    blocks = [block for block in re.split(r"\n\s*\n", text) if block.strip() != "Examples:"]
    shown = []
    for block in blocks:
        lines = block.splitlines()
        if all(line.startswith("  ") for line in lines):
            body = "\n".join(line[2:] for line in lines)
            shown.append(f"Examples:\n\n```\n{body}\n```\n")
        else:
            shown.append(" ".join(line.strip() for line in lines) + "\n")
    return "\n".join(shown)


def _parameters(command: click.Command) -> str:
    rows = [_parameter(command, p) for p in command.params if not getattr(p, "hidden", False)]
    return table(["argument or option", "meaning", "default"], rows) if rows else ""


def _parameter(command: click.Command, found: click.Parameter) -> tuple[str, str, str]:
    if isinstance(found, click.Argument):
        name = found.make_metavar(click.Context(command))
        return code(name), _argument_help(command, found), ""
    names = ", ".join((*found.opts, *found.secondary_opts))
    flag = bool(getattr(found, "is_flag", False))
    choices = getattr(found.type, "choices", None)
    value = "|".join(map(str, choices)) if choices else found.type.name.upper()
    text = str(getattr(found, "help", "") or "")
    env = f" (or `{found.envvar}`)" if found.envvar and str(found.envvar) not in text else ""
    return code(names + ("" if flag else f" {value}")), text + env, _default(found)


def _argument_help(command: click.Command, found: click.Argument) -> str:
    """Read it where it was declared: click 8.5 loses what typer gives it."""
    if text := getattr(found, "help", ""):
        return str(text)
    hints = get_type_hints(inspect.unwrap(command.callback or print), include_extras=True)
    declared = getattr(hints.get(found.name or ""), "__metadata__", ())
    return next((str(d.help) for d in declared if getattr(d, "help", None)), "")


def _default(found: click.Parameter) -> str:
    value = found.default
    plain = isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""
    if found.secondary_opts and value is True:
        return code(found.opts[0])
    return code(str(value)) if plain else ""


# The document


def document_page() -> str:
    """Describe every field of the document."""
    form = schema()
    parts = ["# The document\n", DOCUMENT_INTRODUCTION]
    below = [_section(form["$defs"][name], name) for name in _reachable(form)]
    return "\n".join([*parts, _section(form, "Federation"), *below])


def _reachable(form: Schema) -> list[str]:
    """Name every object type in the order in which a reader meets them."""
    found: list[str] = []

    def visit(here: Schema) -> None:
        for name in re.findall(r'"#/\$defs/(\w+)"', json.dumps(here["properties"])):
            below = form["$defs"][name]
            if name not in found and "properties" in below:
                found.append(name)
                visit(below)

    visit(form)
    return found


def _section(form: Schema, name: str) -> str:
    required = form.get("required", [])
    rows = [
        (
            code(key) + (" (required)" if key in required else ""),
            _type(field),
            _json(field["default"]) if "default" in field else "",
            field.get("description") or _meant(field),
        )
        for key, field in form["properties"].items()
    ]
    text = inspect.cleandoc(form.get("description", ""))
    return f"## {name}\n\n{text}\n\n" + table(["key", "type", "default", "meaning"], rows)


def _meant(field: Schema) -> str:
    """Take the meaning of the type where the field has none of its own."""
    names = re.findall(r'"#/\$defs/(\w+)"', json.dumps(field))
    return str(schema()["$defs"][names[0]].get("description", "")) if names else ""


def _json(value: Any) -> str:
    if value in (None, [], {}, "") or isinstance(value, dict):
        return ""
    return code(json.dumps(value)) if not isinstance(value, list) else ""


def _type(field: Schema) -> str:
    """Put a schema's type into words, with a link where there is a section."""
    if reference := field.get("$ref"):
        return _named(reference.rpartition("/")[2])
    if alternatives := field.get("anyOf") or field.get("oneOf"):
        return " or ".join(_type(a) for a in alternatives if a.get("type") != "null")
    if choices := field.get("enum") or ([field["const"]] if "const" in field else []):
        return ", ".join(code(str(choice)) for choice in choices)
    match str(field.get("type", "anything")):
        case "array":
            words = f"list of {_type(field['items'])}"
        case "object":
            words = f"mapping to {_values(field)}"
        case plain:
            words = {"integer": "whole number", "string": "text"}.get(plain, plain)
    return words + _limits(field)


def _named(name: str) -> str:
    form = schema()["$defs"][name]
    return f"[{name}](#{name.lower()})" if "properties" in form else _type(form)


def _values(field: Schema) -> str:
    patterns = field.get("patternProperties")
    inner = next(iter(patterns.values())) if patterns else field.get("additionalProperties")
    return _type(inner) if isinstance(inner, dict) and inner else "anything"


def _limits(field: Schema) -> str:
    found = [words.format(field[key]) for key, words in _WORDS.items() if key in field]
    found = ["not empty" if w.startswith("at least 1 ") else w for w in found]
    if "pattern" in field:
        found.append(_FORMS.get(field["pattern"], f"form `{field['pattern']}`"))
    return f" ({', '.join(found)})" if found else ""


# Errors


@dataclass(frozen=True, slots=True)
class Told:
    """An error class as the source says it."""

    code: str
    name: str
    meaning: str
    exit_status: int


def told_errors() -> list[Told]:
    """Read every error class with a code, without importing anything."""
    found = [
        told
        for path in sorted((ROOT / "src" / "umbel").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and (told := _told(node))
    ]
    return sorted(found, key=lambda one: one.code)


def _told(node: ast.ClassDef) -> Told | None:
    values = {
        ast.unparse(item.targets[0]): item.value.value
        for item in node.body
        if isinstance(item, ast.Assign) and isinstance(item.value, ast.Constant)
    }
    code = str(values.get("code", ""))
    if not re.fullmatch(r"U\d{3}", code):
        return None
    family, _ = FAMILIES[code[:2]]
    status = values.get("exit_status", family.exit_status)
    return Told(code, node.name, (ast.get_docstring(node) or "").split("\n\n")[0], int(str(status)))


def errors_page() -> str:
    """List every error."""
    errors = told_errors()
    parts = [
        "# Errors\n",
        "An error has a code that never changes, a fact and a hint. Every code has a page.\n",
    ]
    for prefix, (_, title) in FAMILIES.items():
        rows = [
            (f"[{e.code}](../errors/{e.code}.md)", code(e.name), e.meaning, str(e.exit_status))
            for e in errors
            if e.code.startswith(prefix)
        ]
        parts += [f"## {prefix}xx: {title}\n", table(["code", "name", "meaning", "exit"], rows)]
    return "\n".join(parts)


# Events


def events_page() -> str:
    """Describe every event."""
    parts = ["# Events\n", EVENTS_INTRODUCTION]
    for kind in get_args(event.Event):
        rows = [("`kind`", "str", f'always `"{kind.kind}"`')]
        rows += [(code(f.name), str(f.type), _optional(f)) for f in fields(kind)]
        parts += [f"## {kind.kind}\n", f"{kind.__doc__}\n", table(["key", "type", "default"], rows)]
    return "\n".join(parts)


def _optional(found: Field[Any]) -> str:
    if found.default_factory is not MISSING:
        return "empty"
    if found.default is MISSING:
        return ""
    return "null" if found.default is None else code(json.dumps(found.default))


def main(arguments: Sequence[str]) -> int:
    """Write the files, or with --check say which differ."""
    wanted = pages()
    differing = [p for p, text in wanted.items() if not p.exists() or p.read_text() != text]
    for path in differing:
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path])
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
    if "--check" in arguments and differing:
        sys.stderr.write(f"these differ from the code; write them again with: {COMMAND}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
