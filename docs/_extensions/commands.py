"""Documents the command line as tables, generated from the Typer app."""

from __future__ import annotations

import re
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from tf_transformer.commands import app

TYPES = {Path: "path", int: "whole number", float: "number", str: "text", list: "text"}
HELP = "| `--help`, `-h` | | | Show the command's arguments and options. |"


def as_markdown() -> str:
    """A section for the command itself, and one for each of its commands."""
    whole = typer.main.get_command(app)
    parts = ["## tf-transformer", whole.help, _options(whole.params, app.registered_callback.callback)]
    for name, command in whole.commands.items():
        (function,) = (each.callback for each in app.registered_commands if name == _name(each))
        arguments = [each for each in command.params if isinstance(each, typer.core.TyperArgument)]
        options = [each for each in command.params if each not in arguments]
        usage = " ".join(["tf-transformer", name, "[OPTIONS]", *map(_placeholder, arguments)])
        parts += [f"## {name}", command.help, f"```text\n{usage}\n```"]
        if arguments:
            rows = [f"| `{_bare(each)}` | {_default(each)} | {_help(each)} |" for each in arguments]
            parts.append("\n".join(["| argument | default | meaning |", "| --- | --- | --- |", *rows]))
        parts.append(_options(options, function))
    return "\n\n".join(parts)


def _options(options: list[Any], function: Callable) -> str:
    types = typing.get_type_hints(function)
    rows = ["| option | value | default | meaning |", "| --- | --- | --- | --- |"]
    for option in options:
        names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
        default = "" if option.is_flag and option.default is False else _default(option)
        rows.append(f"| {names} | {_value(option, types[option.name])} | {default} | {_help(option)} |")
    return "\n".join([*rows, HELP])


def _name(registered: Any) -> str:
    """What Typer calls a command that is given no name."""
    return registered.name or registered.callback.__name__.replace("_", "-")


def _bare(argument: Any) -> str:
    return (argument.metavar or argument.name.upper()).removesuffix("...")


def _placeholder(argument: Any) -> str:
    name = _bare(argument)
    if argument.nargs == -1 and not name.endswith("]"):  # else its own name says what is repeated
        name += "..."
    return name if argument.required else f"[{name}]"


def _default(parameter: Any) -> str:
    """The parameter's default value, or "required"."""
    if parameter.required:
        return "required"
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    return "" if parameter.default is None else f"`{parameter.default}`"


def _value(option: Any, annotation: Any) -> str:
    """The kind of value an option takes; empty for a flag."""
    if option.is_flag:
        return ""
    if option.metavar:
        return " or ".join(f"`{each}`" for each in option.metavar.split("|"))
    (kind,) = [each for each in typing.get_args(annotation) or [annotation] if each is not type(None)]
    limits = [f"at least {option.min}"] if option.min is not None else []
    limits += [f"at most {option.max}"] if option.max is not None else []
    return ", ".join([TYPES[typing.get_origin(kind) or kind], *limits])


def _help(parameter: Any) -> str:
    return re.sub(r"--[a-z-]+( [\w.]+=\w+)?", r"`\g<0>`", parameter.help or "").replace("|", "\\|")
