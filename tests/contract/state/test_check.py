"""A state that is looked through: what its counters say is what its rows are, or the difference is
named."""

import re
import sqlite3
from collections.abc import Callable
from urllib.parse import urlsplit

import psycopg
import pytest

from devservers import PostgresServer
from manyhands.shared.crawl.store.errors import StateError
from manyhands.shared.crawl.store.postgres.place import parse_place
from manyhands.shared.crawl.store.sqlite.directory import shard_file
from tests.support.broken_files import overwrite_middle
from tests.support.state_content import fill
from tests.support.state_places import KINDS, NewPlace, checked
