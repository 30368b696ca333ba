"""The names of a setting: a variable, an option, a key of the YAML file; and names that only look
like ours. Pure."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from manyhands.shared.settings.sections import SECTIONS, HoldsPassword, Settings

# Section and field; of a stage: `stages`, its name, and a field.
Key = tuple[str, ...]
STAGES = "stages"
CONFIG_VARIABLE = "MANYHANDS_CONFIG"
PROVIDER_VARIABLE = "FAKTORY_PROVIDER"
# Variables with a prefix of ours that other programs read: Faktory itself, the compose files, the
# Kubernetes manifests.
OF_OTHERS = frozenset(
    {
        "FAKTORY_ENV",
        "FAKTORY_REPLICAS",
        "FAKTORY_SERVER_IP",
        "FAKTORY_SKIP_PASSWORD",
        "FAKTORY_WEB_USER",
        "MANYHANDS_API_RUN",
        "MANYHANDS_IMAGE",
        "WORKER_CPUS",
        "WORKER_MEMORY",
    }
)
# Kubernetes and Docker set these in every container when a service has the same name as ours.
_OF_LINKS = re.compile(
    r"\w+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?|NAME|ENV_\w+)"
)


# What a section is about bears the name of the section.
_SHORT: dict[Key, Key] = {
    key: value
    for section in ("sinks", "results")
    for key, value in (
        ((section, "urls"), (section,)),
        ((section, "urls_file"), (section, "file")),
    )
}


@dataclass(slots=True, frozen=True)
class Setting:
    """A field of a section."""

    section: str
    name: str
    field: FieldInfo

    @property
    def key(self) -> Key:
        return (self.section, self.name)

    @property
    def file_key(self) -> Key:
        """Gives the name of a file that holds the value."""
        return (self.section, f"{self.name}_file")

    @property
    def is_secret(self) -> bool:
        return self.field.annotation is SecretStr

    @property
    def holds_password(self) -> bool:
        return any(isinstance(mark, HoldsPassword) for mark in self.field.metadata)

    @property
    def has_file(self) -> bool:
        return self.is_secret or self.holds_password


def settings_of(section: str) -> list[Setting]:
    """In the order of the model; none of the stages, whose names are the user's."""
    model = Settings.model_fields[section].annotation
    if not isinstance(model, type) or not issubclass(model, BaseModel):
        return []
    return [Setting(section, name, field) for name, field in model.model_fields.items()]


def keys_of(section: str) -> list[Key]:
    """What may be given of a section."""
    settings = settings_of(section)
    return [setting.key for setting in settings] + [
        setting.file_key for setting in settings if setting.has_file
    ]


def variable_of(key: Key) -> str:
    return "_".join(_SHORT.get(key, key)).upper()


def option_of(key: Key) -> str:
    return f"--{'-'.join(_SHORT.get(key, key))}".replace("_", "-")


def prefixes_of(sections: Iterable[str]) -> tuple[str, ...]:
    """What the variables of a service begin with."""
    return (*(f"{section.upper()}_" for section in sections), "MANYHANDS_")


# These are names by themselves.
VARIABLE_PREFIXES = (*prefixes_of(SECTIONS), "SINKS", "RESULTS")


def known_variables(sections: Iterable[str] = SECTIONS) -> dict[str, Key]:
    return {variable_of(key): key for section in sections for key in keys_of(section)}


def wrong_variables(
    names: Iterable[str], sections: Collection[str], named_by_provider: Collection[str]
) -> dict[str, str]:
    """Names that look like ours and are not, each with a message for the user."""
    known = {*known_variables(sections), CONFIG_VARIABLE, PROVIDER_VARIABLE}
    exempt = known | OF_OTHERS | set(named_by_provider)
    wrong = {}
    for name in names:
        prefix = next((one for one in prefixes_of(sections) if name.startswith(one)), None)
        if prefix is None or name in exempt or _OF_LINKS.fullmatch(name):
            continue
        wrong[name] = not_a_setting(prefix, name.removeprefix(prefix), known)
    return wrong


def not_a_setting(prefix: str, name: str, known: Iterable[str]) -> str:
    """The prefix is left out of the comparison: it would make all of them look alike."""
    rests = [other.removeprefix(prefix) for other in known if other.startswith(prefix)]
    near = get_close_matches(name, rests, n=1)
    hint = f" (did you mean {prefix}{near[0]}?)" if near else ""
    return f"{prefix}{name} is not a setting{hint}"
