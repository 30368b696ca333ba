"""The command line: an option for each setting, made from the model. Secrets are not among them,
because everybody on the machine can see a command line; the files that hold them are."""

import argparse
import textwrap
from collections.abc import Collection, Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr

from manyhands.shared.settings.names import (
    CONFIG_VARIABLE,
    Key,
    Setting,
    option_of,
    settings_of,
    variable_of,
)
from manyhands.shared.settings.sections import Settings

CONFIG_DEST = "config_file"
# Between section and field in the name of an argument; no other argument has it.
_JOINT = "."
# Lines of 80 columns: it is printed as it stands.
HOW_TO_SET = """\
Every option can also be set by an environment variable (FAKTORY_URL for
--faktory-url) or in the YAML file (faktory: {url: …}). The command line comes
first, then the environment, .env in the current directory, the YAML file and
the defaults. See docs/CONFIGURATION.md.
"""
_CONFIG_HELP = f"YAML file (or {CONFIG_VARIABLE}; default ./manyhands.yaml, if there is one)"


class _Help(argparse.RawDescriptionHelpFormatter):
    """Options are long here; their help still starts on the same line."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34)

    def _split_lines(self, text: str, width: int) -> list[str]:
        """A name with a hyphen stays whole, to be copied and searched for."""
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """A text of one line is wrapped, one with line breaks of its own is left as it is."""
        if "\n" in text.strip():
            return super()._fill_text(text, width, indent)
        return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent)


class SettingsParser(argparse.ArgumentParser):
    """Also the class of its subcommands' parsers."""

    def __init__(self, **options: Any) -> None:
        # No abbreviations: what is short for one option today could be another one's tomorrow.
        super().__init__(**options, formatter_class=_Help, allow_abbrev=False)


def settings_parser(
    service: str, description: str, sections: Collection[str], *, commands: str, more: str = ""
) -> argparse.ArgumentParser:
    """The parser of `manyhands service`; subcommands may be added. `more` ends its help text."""
    parser = SettingsParser(
        prog=f"manyhands {service}",
        # Not all options: the error message above them would be lost.
        usage=f"%(prog)s [options] [{commands}]",
        description=description,
        epilog=f"{HOW_TO_SET}{more}",
    )
    add_settings(parser, sections)
    return parser


def add_settings(parser: argparse.ArgumentParser, sections: Collection[str]) -> None:
    """An option for each setting of these sections, and one for the YAML file."""
    parser.add_argument(
        "--config", metavar="FILE", dest=CONFIG_DEST, default=argparse.SUPPRESS, help=_CONFIG_HELP
    )
    for section in sections:
        settings = settings_of(section)
        if not settings:
            continue
        model = Settings.model_fields[section].annotation
        group = parser.add_argument_group(section, " ".join((model.__doc__ or "").split()))
        for setting in settings:
            for key, metavar, help_text in _options(setting):
                group.add_argument(
                    option_of(key),
                    metavar=metavar,
                    dest=_JOINT.join(key),
                    # Absent unless given: a subcommand's options must not undo those before it.
                    default=argparse.SUPPRESS,
                    help=help_text.replace("%", "%%"),
                )


def given_options(arguments: argparse.Namespace | None) -> dict[Key, str]:
    if arguments is None:
        return {}
    given = vars(arguments).items()
    return {tuple(name.split(_JOINT)): value for name, value in given if _JOINT in name}


def given_config(arguments: argparse.Namespace | None) -> str | None:
    return getattr(arguments, CONFIG_DEST, None)


def default_text(setting: Setting) -> str:
    """As a user would write it."""
    default = setting.field.default
    if isinstance(default, SecretStr) or default in (None, "", ()):
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    return f"{default:g}" if isinstance(default, float) else str(default)


def _options(setting: Setting) -> Iterator[tuple[Key, str, str]]:
    said = setting.field.description
    if not setting.is_secret:
        metavar = _metavar(setting.field.annotation)
        yield setting.key, metavar, f"{said} (default {default_text(setting)})"
        said = f"file that holds {option_of(setting.key)}"
    else:
        said = f"file that holds {variable_of(setting.key)}: {said}"
    if setting.has_file:
        yield setting.file_key, "FILE", said


def _metavar(annotation: Any) -> str:
    if get_origin(annotation) in (Union, UnionType):
        (annotation,) = (part for part in get_args(annotation) if part is not NoneType)
    if get_origin(annotation) is Literal:
        return f"{{{','.join(get_args(annotation))}}}"
    by_type = {bool: "{true,false}", int: "N", float: "N", Path: "PATH"}
    return by_type.get(annotation, "TEXT")
