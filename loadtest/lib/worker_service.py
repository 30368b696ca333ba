"""`manyhands worker` of this checkout as a process, set up by its caller alone."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from devservers.checkout import PRODUCT_PATH
from devservers.processes import Child
from manyhands.shared.settings.names import VARIABLE_PREFIXES


def start_worker(broker_url: str, settings: Mapping[str, str], log: Path) -> Child:
    """The settings of whoever runs this must not leak in."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(VARIABLE_PREFIXES)
    }
    env = inherited | {
        "PYTHONPATH": PRODUCT_PATH,
        "FAKTORY_URL": broker_url,
        "WORKER_HTTP_BIND": "127.0.0.1:0",
        **settings,
    }
    return Child([sys.executable, "-m", "manyhands.worker"], log=log, env=env)
