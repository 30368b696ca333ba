"""Brings a database's schema to the present version, also when many services start at once: one of
them does it, and the others wait for the lock and find it done."""

from manyhands.shared.crawl.store.errors import StateError
from manyhands.shared.crawl.store.postgres.database import Database, Session
from manyhands.shared.crawl.store.postgres.schema import CONTROL, Names

# Beside the tables of the control store, and so quick to look at.
_VERSION = "SELECT value FROM @facts WHERE name = 'tables'"


def migrate(database: Database, part: int, parts: int, tag: int | None = None) -> int:
    """Make or bring up to date the tables of the database that is number `part` of so many; the
    tag of the store, which its first database has made and all others are given. Raises StateError
    when it belongs to another store, or to another place in CRAWL_STATE."""
    names = Names(database.place.schema)
    if not _is_present(database, names):
        key = database.place.lock_key("migration")
        with database.transaction(("SELECT pg_advisory_xact_lock(%s)", (key,))) as (session, _):
            _bring_up(session, database, names, (part, parts, tag))
    return check_part(database, part, parts, tag)


def check_part(database: Database, part: int, parts: int, tag: int | None = None) -> int:
    """That it is this part of a store, whose tag is returned. Raises StateError."""
    names = Names(database.place.schema)
    facts: dict[str, int] = dict(database.ask(names.sql("SELECT name, value FROM @facts")))
    if (facts["part"], facts["parts"]) != (part, parts) or tag not in (None, facts["tag"]):
        raise StateError(
            f"{database.place.shown} keeps part {facts['part'] + 1} of {facts['parts']} of a state:"
            " CRAWL_STATE must name the databases of one state, all of them, in the order in which"
            " it was made"
        )
    return int(facts["tag"])


def _is_present(database: Database, names: Names) -> bool:
    if database.value("SELECT to_regclass(%s)", (f"{names.schema}.facts",)) is None:
        return False
    version = database.value(names.sql(_VERSION))
    _check(database, version)
    return bool(version == len(CONTROL))


def _check(database: Database, version: int) -> None:
    if version > len(CONTROL):
        raise StateError(
            f"{database.place.shown} was written by a later release (version {version} of its"
            f" tables, this one knows {len(CONTROL)})"
        )


def _bring_up(
    session: Session, database: Database, names: Names, identity: tuple[int, int, int | None]
) -> None:
    # A role that owns no more than the schema may not even ask for one that is there to be made.
    if session.value("SELECT to_regnamespace(%s)", (names.schema,)) is None:
        session.send(f"CREATE SCHEMA {names.schema}")
    is_new = session.value("SELECT to_regclass(%s)", (f"{names.schema}.facts",)) is None
    version = 0 if is_new else int(session.value(names.sql(_VERSION)))
    _check(database, version)
    for migration in CONTROL[version:]:
        for statement in migration:
            session.send(names.sql(statement))
    if is_new:
        part, parts, tag = identity
        session.send(
            names.sql(
                "INSERT INTO @facts VALUES ('part', %s), ('parts', %s),"
                " ('tag', coalesce(%s::bigint, (random() * 1099511627775)::bigint))"
            ),
            (part, parts, tag),
        )
    session.send(
        names.sql(
            "INSERT INTO @facts VALUES ('tables', %s)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        ),
        (len(CONTROL),),
    )
