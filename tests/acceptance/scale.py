"""How much: a few minutes in `make test`, an hour in `make prove`. The code is the same."""

import os

IS_PROOF = bool(os.environ.get("MANYHANDS_PROVE"))
FAULT_JOBS = 20_000 if IS_PROOF else 2_000
FAULT_ROUNDS = 15 if IS_PROOF else 4
# A reservation lasts at least 60 s, its end is noticed within 15, a first retry takes up to 45.
RECOVERY_S = 1500 if IS_PROOF else 240

BROKER_KILLS = 50 if IS_PROOF else 6
BROKER_JOBS = 200_000 if IS_PROOF else 5_000
NETWORK_JOBS = 20_000 if IS_PROOF else 1_500
NETWORK_FAULTS = 10 if IS_PROOF else 2
LONG_JOBS = 10_000 if IS_PROOF else 500
