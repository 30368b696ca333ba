"""Since when a place that keeps state is away."""

from manyhands.shared.crawl.store.absence import Absence, were_here_for


def test_an_absence_begins_with_the_first_failure_and_keeps_its_cause() -> None:
    absence = Absence("db")
    absence.failed("refused", now=10.0)
    absence.failed("starting up", now=12.0)

    assert (absence.since, absence.why) == (10.0, "refused")
    assert absence.lasts_s(now=13.0) == 3.0


def test_it_ends_with_the_first_success() -> None:
    absence = Absence("db")
    absence.failed("refused", now=10.0)
    absence.worked(now=15.0)
    absence.worked(now=16.0)

    assert (absence.since, absence.ended_at, absence.lasts_s(now=17.0)) == (None, 15.0, 0.0)


def test_it_does_not_end_while_somebody_waits_for_an_answer() -> None:
    absence = Absence("db")
    absence.is_silent("it does not answer", now=10.0)
    absence.worked(now=10.1)
    assert absence.since == 10.0
    absence.is_silent("it does not answer", now=12.0)
    absence.worked(now=12.4)
    assert absence.since == 10.0
    absence.worked(now=12.5)
    assert absence.lasts_s(now=12.5) == 0.0
    assert absence.ended_at == 12.5


def test_a_place_that_was_never_away_has_been_there_for_ever() -> None:
    assert were_here_for([Absence("a"), Absence("b")], 3600.0, now=0.0)


def test_all_places_must_have_been_there_for_that_long() -> None:
    there, back = Absence("a"), Absence("b")
    back.failed("refused", now=10.0)
    assert not were_here_for([there, back], 5.0, now=100.0)
    back.worked(now=100.0)
    assert not were_here_for([there, back], 5.0, now=104.9)
    assert were_here_for([there, back], 5.0, now=105.0)


def test_every_attempt_counts_as_a_try() -> None:
    absence = Absence("db")
    absence.failed("refused", now=10.0)
    absence.failed("refused", now=20.0)

    assert absence.was_tried_within(1.0, now=20.5)
    assert not absence.was_tried_within(1.0, now=21.0)
