"""Puts the layers together: command line > environment > `.env` > YAML file > defaults."""

import argparse
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from manyhands.shared.errors import ConfigError
from manyhands.shared.settings.environment import environment
from manyhands.shared.settings.indirect import resolved
from manyhands.shared.settings.layers import (
    Given,
    Variables,
    of_options,
    of_variables,
    read_dotenv,
    read_yaml,
)
from manyhands.shared.settings.names import CONFIG_VARIABLE, PROVIDER_VARIABLE, Key
from manyhands.shared.settings.options import given_config, given_options
from manyhands.shared.settings.sections import SECTIONS, Settings

# Read if it is there and no other one is named.
DEFAULT_CONFIG = Path("manyhands.yaml")


@dataclass(slots=True, frozen=True)
class Loaded:
    """The settings, and for those that are not defaults where they came from."""

    settings: Settings
    origins: Mapping[Key, str]

    def origin(self, key: Key) -> str:
        return self.origins.get(key, "default")


def load(
    sections: Collection[str] = SECTIONS, arguments: argparse.Namespace | None = None
) -> Loaded:
    """Read the sections that a service uses. The others keep their defaults, and the services that
    use them report what is wrong there. One line names everything that is wrong."""
    outer = Variables(environment())
    dotenv = read_dotenv(outer.values)
    variables = {**dotenv.values, **outer.values}
    providers = {one.values.get(PROVIDER_VARIABLE, "") for one in (outer, dotenv)}
    layers = (
        of_options(given_options(arguments)),
        of_variables(outer, sections, providers),
        of_variables(dotenv, sections, providers),
        read_yaml(_config_file(arguments, variables)),
    )
    values: dict[Key, Given] = {}
    problems: list[str] = []
    for layer in layers:
        given = resolved(layer, sections, values, variables)
        values = {**given.values, **values}
        problems += given.problems
    try:
        settings = Settings.model_validate(_tree(values))
    except ValidationError as error:
        problems += [_problem(problem, values) for problem in error.errors()]
    if problems:
        raise ConfigError("; ".join(problems))
    return Loaded(settings, {key: given.origin for key, given in values.items()})


def _config_file(arguments: argparse.Namespace | None, variables: Mapping[str, str]) -> Path | None:
    named = given_config(arguments) or variables.get(CONFIG_VARIABLE)
    if named:
        return Path(named)
    return DEFAULT_CONFIG if DEFAULT_CONFIG.is_file() else None


def _tree(values: Mapping[Key, Given]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for (*parents, name), given in values.items():
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[name] = given.value
    return tree


def _problem(problem: Any, values: Mapping[Key, Given]) -> str:
    """By the name that the user gave it; a check of several fields names them itself."""
    said = str(problem["msg"]).removeprefix("Value error, ")
    place = tuple(map(str, problem["loc"]))
    for length in range(len(place), 0, -1):
        if place[:length] in values:
            return f"{values[place[:length]].name}: {said}"
    return said
