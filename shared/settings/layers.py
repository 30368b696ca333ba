"""Reads each place that may hold settings: names into keys, and what is wrong with them.

No values are converted or judged here, and nothing is merged: shared/settings/loading.py does.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

import yaml
from dotenv.parser import Binding, parse_stream
from dotenv.variables import parse_variables

from manyhands.shared.settings.names import (
    PROVIDER_VARIABLE,
    STAGES,
    Key,
    keys_of,
    known_variables,
    not_a_setting,
    option_of,
    wrong_variables,
)
from manyhands.shared.settings.sections import SECTIONS, StageSettings

DOTENV = Path(".env")
# Of a file with settings, or with one secret: what is longer, or never ends, is something else.
MOST_FILE_BYTES = 1024 * 1024
# Of variables only: it names another one that holds FAKTORY_URL.
PROVIDER: Key = ("faktory", "provider")


@dataclass(slots=True, frozen=True)
class Given:
    """A value, the name that a complaint about it begins with, and where it came from."""

    value: object
    name: str
    origin: str


@dataclass(slots=True)
class Layer:
    """What one place gives."""

    values: dict[Key, Given] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Variables:
    """Of the environment, or of a `.env` file with the lines they stand in."""

    values: Mapping[str, str]
    lines: Mapping[str, int] | None = None
    problems: list[str] = field(default_factory=list)

    def given(self, name: str, value: str) -> Given:
        if self.lines is None:
            return Given(value, name, f"environment {name}")
        place = f"{DOTENV} line {self.lines[name]}"
        return Given(value, f"{place}: {name}", place)


# Command line


def of_options(options: Mapping[Key, str]) -> Layer:
    return Layer(
        {
            key: Given(value, option_of(key), f"command line {option_of(key)}")
            for key, value in options.items()
        }
    )


# Environment and .env


def of_variables(
    variables: Variables, sections: Collection[str], named_by_provider: Collection[str]
) -> Layer:
    """A variable that FAKTORY_PROVIDER names may have any name."""
    layer = Layer(problems=list(variables.problems))
    known = known_variables(sections)
    if "faktory" in sections:
        known[PROVIDER_VARIABLE] = PROVIDER
    for name, key in known.items():
        if name in variables.values:
            layer.values[key] = variables.given(name, variables.values[name])
    wrong = wrong_variables(variables.values, sections, named_by_provider)
    for name, problem in wrong.items():
        place = variables.given(name, "").name.removesuffix(name)
        layer.problems.append(f"{place}{problem}")
    return layer


def read_dotenv(environment: Mapping[str, str]) -> Variables:
    """`.env` of the current directory, with `${NAME}` replaced; a directory of that name, as some
    virtual environments have it, is none."""
    if not DOTENV.is_file():
        return Variables({}, {})
    try:
        text = read_small_file(DOTENV)
    except (OSError, ValueError) as error:
        return Variables({}, {}, [f"cannot read {DOTENV}: {reason(error)}"])
    known = dict(environment)
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    problems = []
    for binding in parse_stream(StringIO(text)):
        line = _line_of(binding)
        if binding.error:
            problems.append(f"{DOTENV} line {line}: not NAME=value")
        elif binding.key is not None and binding.value:
            value = "".join(atom.resolve(known) for atom in parse_variables(binding.value))
            known[binding.key] = values[binding.key] = value
            lines[binding.key] = line
    return Variables({name: value for name, value in values.items() if value}, lines, problems)


def _line_of(binding: Binding) -> int:
    """The parser counts from the empty lines before it."""
    text = binding.original.string
    blank = text[: len(text) - len(text.lstrip())]
    return binding.original.line + blank.count("\n")


# YAML


def read_yaml(path: Path | None) -> Layer:
    layer = Layer()
    if path is None:
        return layer
    try:
        _YamlFile(path, layer).read()
    except yaml.YAMLError as error:
        layer.problems.append(_not_yaml(path, error))
    except (OSError, ValueError) as error:
        layer.problems.append(f"cannot read {path}: {reason(error)}")
    except RecursionError:
        layer.problems.append(f"{path}: lists or maps are nested too deeply")
    return layer


class _YamlFile:
    """Reads nodes instead of values: nodes know their lines, and show a key that stands twice."""

    def __init__(self, path: Path, layer: Layer) -> None:
        self._path = path
        self._layer = layer
        self._loader = yaml.SafeLoader(read_small_file(path))

    def read(self) -> None:
        root = self._loader.get_single_node()
        for section, node, line in self._entries(root, "the file"):
            if section not in SECTIONS:
                self._complain(line, not_a_setting("", section, SECTIONS))
            elif section == STAGES:
                self._read_stages(node)
            else:
                self._read_fields((section,), node, keys_of(section))

    def _read_stages(self, node: yaml.Node) -> None:
        for name, stage, _ in self._entries(node, STAGES):
            keys = [(STAGES, name, field) for field in StageSettings.model_fields]
            self._read_fields((STAGES, name), stage, keys)

    def _read_fields(self, place: Key, node: yaml.Node, known: Collection[Key]) -> None:
        what = ".".join(place)
        for name, value, line in self._entries(node, what):
            key = (*place, name)
            if key not in known:
                others = [".".join(other) for other in known]
                self._complain(line, not_a_setting(f"{what}.", name, others))
                continue
            content = self._loader.construct_object(value, deep=True)
            origin = f"{self._path} line {line}"
            self._layer.values[key] = Given(content, f"{origin}: {what}.{name}", origin)

    def _entries(self, node: yaml.Node | None, what: str) -> Iterator[tuple[str, yaml.Node, int]]:
        """Keys with their values and lines; an empty node has none."""
        if node is None or node.tag == "tag:yaml.org,2002:null":
            return
        if not isinstance(node, yaml.MappingNode):
            self._complain(_line(node), f"{what} must be a map of names and values")
            return
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                self._complain(_line(key), f"{name} stands there twice")
            seen.add(name)
            yield name, value, _line(key)

    def _complain(self, line: int, problem: str) -> None:
        self._layer.problems.append(f"{self._path} line {line}: {problem}")


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _not_yaml(path: Path, error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{path} line {error.problem_mark.line + 1}: not YAML: {error.problem}"
    return f"{path}: not YAML: {' '.join(str(error).split())}"


def read_small_file(path: Path) -> str:
    """Raises OSError, or ValueError for what is too long or is not UTF-8."""
    with path.open("rb") as file:
        data = file.read(MOST_FILE_BYTES + 1)
    if len(data) > MOST_FILE_BYTES:
        raise ValueError(f"it is longer than {MOST_FILE_BYTES // 1024} KiB")
    return data.decode("utf-8")


def reason(error: OSError | ValueError) -> str:
    """Why a file cannot be read."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
