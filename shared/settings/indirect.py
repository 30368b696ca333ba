"""Values kept elsewhere: in a file per secret, or in the variable that FAKTORY_PROVIDER names."""

from collections.abc import Collection, Mapping
from pathlib import Path

from manyhands.shared.settings.layers import PROVIDER, Given, Layer, read_small_file, reason
from manyhands.shared.settings.names import Key, settings_of

FAKTORY_URL: Key = ("faktory", "url")


class _Unusable(Exception):
    """With the reason."""


def resolved(
    layer: Layer, sections: Collection[str], settled: Collection[Key], variables: Mapping[str, str]
) -> Layer:
    """A layer's values for these sections, with references replaced by what they point to. Keys
    that a higher layer has `settled` are not looked up: their files need not exist."""
    values = {key: given for key, given in layer.values.items() if key[0] in sections}
    problems = list(layer.problems)
    for setting in (one for section in sections for one in settings_of(section) if one.has_file):
        file = values.pop(setting.file_key, None)
        if file is None or setting.key in settled:
            continue
        if setting.key in values:
            problems.append(f"{values[setting.key].name} and {file.name} exclude each other")
            continue
        try:
            values[setting.key] = _of_file(file)
        except _Unusable as error:
            problems.append(f"{file.name}: {error}")
    provider = values.pop(PROVIDER, None)
    if provider is not None and FAKTORY_URL not in settled:
        try:
            # It goes before FAKTORY_URL, as with other clients of Faktory.
            values[FAKTORY_URL] = _of_provider(provider, variables)
        except _Unusable as error:
            problems.append(f"{provider.name}: {error}")
    return Layer(values, problems)


def _of_file(file: Given) -> Given:
    if not isinstance(file.value, str) or not file.value:
        raise _Unusable("not the name of a file")
    try:
        text = read_small_file(Path(file.value))
    except (OSError, ValueError) as error:
        raise _Unusable(f"cannot read {file.value}: {reason(error)}") from None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        # Taken as it is, it would be a service without a password.
        raise _Unusable(f"{file.value} is empty")
    return Given(text, file.name, f"{file.origin}, {file.value}")


def _of_provider(provider: Given, variables: Mapping[str, str]) -> Given:
    name = str(provider.value)
    if "://" in name:
        # Not shown: it may hold a password.
        raise _Unusable("it must be the name of a variable, not a URL")
    if name not in variables:
        raise _Unusable(f"{name} is not set")
    return Given(variables[name], name, f"{name}, by {provider.origin}")
