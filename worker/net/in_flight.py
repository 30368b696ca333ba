"""The bytes of pages that this process holds: one budget for all that it fetches, whatever for."""

from manyhands.worker.net.byte_budget import ByteBudget
from manyhands.worker.service.settings import current

PAGES_IN_FLIGHT = ByteBudget(current().fetch.in_flight_bytes)
