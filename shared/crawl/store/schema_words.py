"""What the tables of all kinds of stores have in common. Pure."""

from manyhands.shared.crawl.states import UrlState

# Indexed, and so quick to find: everything but what most URLs are in. A query must say it in the
# same words, or the database does not see that the index may be used.
IS_LISTED = f"state NOT IN ({UrlState.QUEUED:d}, {UrlState.DONE:d})"
IS_QUEUED = f"state = {UrlState.QUEUED:d}"
# Fetch jobs, which are URLs of no crawl: those that ended without a page and were not told of yet,
# and all that have ended. Redirects have a URL that goes on in their place.
IS_UNTOLD = f"job IS NOT NULL AND state > {UrlState.REDIRECTED:d}"
IS_ENDED_JOB = f"crawl = 0 AND state > {UrlState.PARSING:d}"
IS_FORGETTABLE = f"{IS_ENDED_JOB} AND (job IS NULL OR state <= {UrlState.REDIRECTED:d})"
# The delay of a domain that no owner has said one of: the default of a crawl.
UNKNOWN_DELAY_S = 1.0
# Most domains of a shard, and most hosts of one of them, among which it is looked for what is due.
MOST_DUE = 100
MOST_DUE_ORIGINS = 10
# Of a domain that is given: those that can be fetched first.
MOST_ORIGINS = 100
