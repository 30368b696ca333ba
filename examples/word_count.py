"""Count the words of text files: one job for a file, one for each part of it.

    SINKS=jsonl:words.ndjson WORKER_HANDLERS=examples.word_count manyhands worker

`examples/producer.py` queues files, `examples/test_word_count.py` tests the handlers.
"""

from collections import Counter
from pathlib import Path

from manyhands import Dead, Drop, Job, JobContext, Retry, job

QUEUE = "texts"
LINES_PER_PART = 1_000


# A plain function, because reading a file blocks: it runs in a thread.
@job("split_text", queue=QUEUE)
def split_text(path: Path, context: JobContext) -> None:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise Retry(after_s=30, reason=f"{path} is not there yet") from None
    except UnicodeDecodeError as error:
        raise Dead(f"{path} is not text: {error.reason}") from error
    if not lines:
        raise Drop(f"{path} is empty")
    for start in range(0, len(lines), LINES_PER_PART):
        part = "\n".join(lines[start : start + LINES_PER_PART])
        # The jid follows from this job, so that a repeat of it makes the same jobs again.
        context.push(
            Job(
                jobtype="count_words",
                args=[part, 4],
                queue=QUEUE,
                jid=f"{context.id}.{start}",
                version=2,
            )
        )


# Version 2 brought `shortest`. Jobs of version 1 that still wait get its default; a worker that
# knows only version 1 leaves those of version 2 alone.
@job("count_words", queue=QUEUE, version=2)
async def count_words(text: str, context: JobContext, shortest: int = 1) -> None:
    words = [word for word in text.lower().split() if len(word) >= shortest]
    context.log.debug("counted", words=len(words))
    # The sink keeps one record for an id: a repeat is no second one.
    context.emit({"id": context.id, "words": len(words), "often": Counter(words).most_common(3)})
