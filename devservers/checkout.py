"""The checkout that this lies in: its product is what the servers and benchmarks run."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Before what is installed, which may be the product of another checkout.
PRODUCT_PATH = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
