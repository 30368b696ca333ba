"""`python -m tests.fuzz TARGET --seconds N --seed S`: ends with 1 after a fault, and says where the
input is that did it; `--replay FILE` tries that one again."""

import argparse
import secrets
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.answers import Answers
from tests.fuzz.api_front import ApiFront
from tests.fuzz.archives import Archives
from tests.fuzz.broker_lines import BrokerLines
from tests.fuzz.listings import Listings
from tests.fuzz.pages import Pages
from tests.fuzz.robots import Robots
from tests.fuzz.runner import Fuzzing
from tests.fuzz.targets import Target

TARGETS: dict[str, Callable[[], Target]] = {
    "api-front": ApiFront,
    "broker-lines": BrokerLines,
    "answers": Answers,
    "archives": Archives,
    "robots": Robots,
    "pages": Pages,
    "listings": Listings,
}
OUT = Path(tempfile.gettempdir()) / "manyhands-fuzz"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, help="default: another one each time; it is told")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="this input alone")
    parser.add_argument("--out", type=Path, default=OUT, help="for inputs (default %(default)s)")
    options = parser.parse_args()
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    with TARGETS[options.target]() as target:
        fuzzing = Fuzzing(options.target, target, options.out, seed)
        if options.replay is not None:
            outcome = fuzzing.replay(options.replay)
        else:
            outcome = fuzzing.run(options.seconds)
    sys.stdout.write(f"{outcome.to_json()}\n")
    return 1 if outcome.failure else 0


if __name__ == "__main__":
    sys.exit(main())
