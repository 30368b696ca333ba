"""`manyhands worker config`: every setting that a worker runs with, as a YAML file that could set
it, and on request where each came from. Secrets are masked."""

import argparse
import json
import re
from collections.abc import Iterator

from manyhands.shared.masking import masked_url
from manyhands.shared.settings import StageSettings
from manyhands.shared.settings.loading import Loaded
from manyhands.shared.settings.names import STAGES, Key, Setting, settings_of
from manyhands.shared.settings.options import add_settings
from manyhands.worker.service.settings import SECTIONS

_PLAIN_NAME = re.compile(r"[A-Za-z][\w.-]*")


def add_config_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    config = commands.add_parser(
        "config",
        usage="%(prog)s [options]",
        help="print the settings in effect",
        description="Print the settings that a worker started here would use, as YAML.",
    )
    config.add_argument("--origin", action="store_true", help="show where each value comes from")
    add_settings(config, SECTIONS)


def config_text(loaded: Loaded, *, with_origin: bool) -> str:
    """What to print."""
    lines = []
    for depth, key, value in _entries(loaded):
        text = "" if value is None else f" {value}"
        origin = f"  # {loaded.origin(key)}" if with_origin and value is not None else ""
        lines.append(f"{'  ' * depth}{_name(key[-1])}:{text}{origin}\n")
    return "".join(lines)


def _entries(loaded: Loaded) -> Iterator[tuple[int, Key, str | None]]:
    """Depth, key, and the value as YAML; None where a map follows."""
    for section in SECTIONS:
        if section == STAGES:
            continue
        values = getattr(loaded.settings, section)
        yield 0, (section,), None
        for setting in settings_of(section):
            yield 1, setting.key, _shown(setting, getattr(values, setting.name))
    if not loaded.settings.stages:
        return
    yield 0, (STAGES,), None
    for name, stage in loaded.settings.stages.items():
        yield 1, (STAGES, name), None
        for field in StageSettings.model_fields:
            yield 2, (STAGES, name, field), _yaml(getattr(stage, field))


def _shown(setting: Setting, value: object) -> str:
    if setting.holds_password:
        urls = value if isinstance(value, tuple) else (value,)
        masked = [masked_url(str(url)) for url in urls]
        value = masked if isinstance(value, tuple) else masked[0]
    return _yaml(value)


def _name(text: str) -> str:
    return text if _PLAIN_NAME.fullmatch(text) else _yaml(text)


def _yaml(value: object) -> str:
    """JSON is YAML, and stays in one line whatever is in it. A SecretStr masks itself."""
    return json.dumps(value, ensure_ascii=False, default=str)
