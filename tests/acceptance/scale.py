"""How much: a few minutes in `make test`, an hour in `make prove`. The code is the same."""

import os

IS_PROOF = bool(os.environ.get("TEST_PROVE"))
FAULT_JOBS = 20_000 if IS_PROOF else 2_000
FAULT_ROUNDS = 15 if IS_PROOF else 4
# A reservation lasts at least 60 s, its end is noticed within 15, a first retry takes up to 45.
RECOVERY_S = 1500 if IS_PROOF else 240
# For so long 99 of 100 requests of others may wait while a service is attacked. In `make test` all
# cores are busy with other tests.
OTHERS_WAIT_S = 0.25 if IS_PROOF else 1.0

BROKER_KILLS = 50 if IS_PROOF else 6
BROKER_JOBS = 200_000 if IS_PROOF else 5_000
NETWORK_JOBS = 20_000 if IS_PROOF else 1_500
NETWORK_FAULTS = 10 if IS_PROOF else 2
LONG_JOBS = 10_000 if IS_PROOF else 500

# Records of a Kafka, each of which takes ten milliseconds.
KAFKA_JOBS = 100_000 if IS_PROOF else 3_000

SPLIT_JOBS = 100_000 if IS_PROOF else 5_000
# Milliseconds there and back; each is a run of its own. In turns, because the machine's speed
# changes from minute to minute.
SPLIT_ROUND_TRIPS_MS = (0, 50) * 3 if IS_PROOF else (50,)

LOAD_USERS = 60 if IS_PROOF else 20
# Far longer than the faults need: they must not come after the load.
LOAD_SECONDS = 150 if IS_PROOF else 25
LOAD_FAULTS = 10 if IS_PROOF else 2
LOAD_JOBS_BETWEEN_FAULTS = 10_000 if IS_PROOF else 500

SERVICE_PROCESSES = 3 if IS_PROOF else 2
# Seconds of work for all slots, so that they never run out while the test itself has to wait.
SERVICE_LEAD = 6_000 if IS_PROOF else 1_500
SERVICE_ROLLS = 10 if IS_PROOF else 1
# So long is the rate measured that the windows of a roll are held against.
SERVICE_STEADY_S = 10 if IS_PROOF else 1
# Children are killed for so many seconds. Whoever is killed often has to wait before it comes
# again, so it takes many for one to be there each second.
SERVICE_KILLING_S = 60 if IS_PROOF else 10
SERVICE_KILLED_PROCESSES = 6 if IS_PROOF else 3
SERVICE_HANGS = 3 if IS_PROOF else 1
SERVICE_LEAKS = 60 if IS_PROOF else 20
SERVICE_IN_HAND = 10_000 if IS_PROOF else 2_000

CRAWL_HOSTS = 2_000 if IS_PROOF else 40
CRAWL_PAGES = 40_000 if IS_PROOF else 600
CRAWL_KILLS = 12 if IS_PROOF else 2
CRAWL_KILL_EVERY_S = 10.0 if IS_PROOF else 4.0

# Answers so slow that a crawl lasts longer than the faults, and hosts that are killed so often.
HOSTS_ANSWER_MS = 1000 if IS_PROOF else 500
HOSTS_KILLS = 12 if IS_PROOF else 3
ORDERS_KILLS = 6 if IS_PROOF else 2
# Pages that Locust's users want fetched, while workers are killed.
PAGE_USERS = 8 if IS_PROOF else 4
PAGE_SECONDS = 60 if IS_PROOF else 9
PAGE_KILLS = 10 if IS_PROOF else 2
# All of one host.
HOST_JOBS = 300 if IS_PROOF else 120

# Fetch jobs that have ended and are kept, by the kind of store; so many times a twentieth of them
# is forgotten while as many end.
KEPT_JOBS = (
    {"sqlite": 10_000_000, "postgres": 1_000_000}
    if IS_PROOF
    else {"sqlite": 40_000, "postgres": 40_000}
)
FORGOTTEN_ROUNDS = 4 if IS_PROOF else 2

# The database of the crawls' state is away so often, and for so long each time.
AWAY_TIMES = 3 if IS_PROOF else 1
AWAY_S = 20.0 if IS_PROOF else 10.0

# One domain of so many URLs among so many others, all of them visited with this delay; how often
# the memory is looked at.
ENDLESS_PAGES = 1_000_000 if IS_PROOF else 5_000
ENDLESS_OTHERS = 1_000 if IS_PROOF else 30
ENDLESS_PAGES_PER_HOST = 20 if IS_PROOF else 3
ENDLESS_DELAY_S = 1.0 if IS_PROOF else 0.1
ENDLESS_SLOTS = 200 if IS_PROOF else 40
ENDLESS_LOOK_S = 1.0 if IS_PROOF else 0.1
# Pages of ten megabytes at once.
LARGE_PAGE_SLOTS = 200 if IS_PROOF else 20
LONG_CRAWL_PAGES = 200_000 if IS_PROOF else 600
LONG_CRAWL_HOSTS = 2_000 if IS_PROOF else 40
LONG_CRAWL_SLOTS = 100 if IS_PROOF else 20
# Far longer than any of these crawls takes.
LONG_CRAWL_S = 1500 if IS_PROOF else 60

# A crawl into three sinks, with processes killed so often and the database restarted twice.
SINKS_HOSTS = 2_000 if IS_PROOF else 40
SINKS_PAGES = 50_000 if IS_PROOF else 800
SINKS_KILLS = 20 if IS_PROOF else 4
SINKS_KILL_EVERY_S = 4.0 if IS_PROOF else 2.0
SINK_DOWN_S = 60.0 if IS_PROOF else 5.0

# Of each fuzzer; FUZZ_SECONDS makes a proof longer or shorter.
FUZZ_SECONDS = float(os.environ.get("FUZZ_SECONDS", "600")) if IS_PROOF else 2.0
# Made-up commands to both servers, some 80 a second.
SAME_COMMANDS = 20_000 if IS_PROOF else 2_000

# Of each of the 20 pairs of foreign clients.
PAIR_JOBS = 500 if IS_PROOF else 50

# Packages whose whole documentation is crawled, beside the general index of Python's.
WHOLE_DOCUMENTATIONS = ("python3-doc", "sqlite3-doc", "postgresql-doc") if IS_PROOF else ()

# A crawl that is brought to other stores half-way; so long each of its parts may take.
COPIED_HOSTS = 2_000 if IS_PROOF else 40
COPIED_PAGES = 40_000 if IS_PROOF else 600
COPIED_S = 900.0 if IS_PROOF else 60.0
