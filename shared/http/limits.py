"""What one HTTP client may send, hold and wait for: the limits of all services, in one place. Pure.

A stranger meets all of them before any password or key is looked at.
"""

# Of the request line and the headers. What comes between the pieces of a body and after it (chunk
# sizes, their extensions, trailers) is counted too, and each byte of body pays for one such byte.
HEAD_BYTES = 64 * 1024
HEADERS = 100
# Seconds for a whole head: from the connection's start, or from the head's first byte.
HEAD_WITHIN_S = 10.0
# Requests on one connection that wait for the answer to one before them.
PIPELINED = 100
# Of a body that nobody reads, because its request is refused: so much is read after the answer,
# and the connection stays. Of a longer one the sender is told that the connection ends.
IGNORED_BODY_BYTES = 64 * 1024
# Such a connection is read for so long, and so far, that its client can see the answer: closed
# with unread bytes in it, it would be reset, and the answer might be lost. The bytes are those of a
# list that is a little too long, from a client that reads nothing before it has sent all.
LINGER_S = 2.0
LINGER_BYTES = 20 * 1024 * 1024
# Seconds in which a client has to take something of an answer that waits for it.
TAKES_WITHIN_S = 30.0
# Connections at a time, of each process: to the API, and to the pages of the others.
API_CONNECTIONS = 8192
PAGE_CONNECTIONS = 256
# Seconds that answers on their way have when the process ends.
PAGES_DRAIN_S = 1
# So much of answers is gathered for one write, and so much of a large one is written at a time.
PIECE_BYTES = 64 * 1024
# A page of a list ends at so many bytes, or with a single larger entry; and so many bytes of such
# answers are held at a time by each process.
PAGE_BYTES = 4 * 1024 * 1024
HELD_PAGES_BYTES = 32 * 1024 * 1024
