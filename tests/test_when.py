"""Which times a query names, and that most sentences name none."""

from __future__ import annotations

import time
from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from twofold.errors import InvalidInput
from twofold.when import MOST, READ, Span, spans

UTC = timezone.utc
NOW = datetime(2026, 9, 16, 12, 30, tzinfo=UTC)  # a Wednesday
TOMORROW = "2026-09-17"
BERLIN, NEW_YORK, SAO_PAULO, APIA = map(
    ZoneInfo, ("Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Pacific/Apia")
)


def named(text: str, now: datetime = NOW) -> str:
    """The spans of a text, days only: "2026-07-31" for one, "2026-07-01..2026-08-01" for more, without the last."""
    return " ".join(_shown(span) for span in spans(text, now))


def _shown(span: Span) -> str:
    assert span.start.timetz() == span.end.timetz() == datetime.min.time().replace(tzinfo=span.start.tzinfo)
    one, two = span.start.date(), span.end.date()
    return f"{one}" if two - one == timedelta(1) else f"{one}..{two}"


# ---------------------------------------------------------------- what is understood

ONE_TIME = {
    # days
    "31 July, 2023": "2023-07-31",
    "the 31st of July 2023": "2023-07-31",
    "July 31 2023": "2023-07-31",
    "July 31st, 2023": "2023-07-31",
    "Jul. 31, 2023": "2023-07-31",
    "JULY 31 2023": "2023-07-31",
    "jul 31 2023": "2023-07-31",
    "31-Jul-2023": "2023-07-31",
    "on Monday, 31 July 2023": "2023-07-31",
    "on Monday last week": "2026-09-07..2026-09-14",
    "29 February 2024": "2024-02-29",
    "2026-03-14": "2026-03-14",
    "2026/3/14": "2026-03-14",
    "2026-03-14T10:20": "2026-03-14",
    "14.03.2026": "2026-03-14",
    "14/03/2026": "2026-03-14",
    "3/14/2026": "2026-03-14",
    "03/03/2026": "2026-03-03",
    "03/04/2026": "2026-03-04 2026-04-03",
    "last July 31": "2026-07-31",
    "31 July last year": "2025-07-31",
    # months
    "July 2023": "2023-07-01..2023-08-01",
    "July of 2023": "2023-07-01..2023-08-01",
    "july, 2023": "2023-07-01..2023-08-01",
    "may 2023": "2023-05-01..2023-06-01",
    "2026-03": "2026-03-01..2026-04-01",
    "early June 2023": "2023-06-01..2023-06-11",
    "mid-June 2023": "2023-06-11..2023-06-21",
    "late June 2023": "2023-06-21..2023-07-01",
    "at the end of February 2024": "2024-02-21..2024-03-01",
    "last July": "2026-07-01..2026-08-01",
    "last October": "2025-10-01..2025-11-01",
    "last September": "2025-09-01..2025-10-01",
    "this July": "2026-07-01..2026-08-01",
    "in May last year": "2025-05-01..2025-06-01",
    # years
    "in 2023": "2023-01-01..2024-01-01",
    "2023": "2023-01-01..2024-01-01",
    "What did Anna plan for Lisbon 2023?": "2023-01-01..2024-01-01",
    "my 2023 goals": "2023-01-01..2024-01-01",
    "Anna's 2023 plan": "2023-01-01..2024-01-01",
    "the 2023 conference": "2023-01-01..2024-01-01",
    "in the year 2023 we met": "2023-01-01..2024-01-01",
    "in 1984": "1984-01-01..1985-01-01",
    "early 2023": "2023-01-01..2023-05-01",
    "late last year": "2025-09-01..2026-01-01",
    "in the 1990s": "1990-01-01..2000-01-01",
    "this year": "2026-01-01..2027-01-01",
    "last year": "2025-01-01..2026-01-01",
    "the year before last": "2024-01-01..2025-01-01",
    # seen from today
    "today": "2026-09-16",
    "this morning": "2026-09-16",
    "tonight": "2026-09-16",
    "Yesterday": "2026-09-15",
    "the day before yesterday": "2026-09-14",
    "this week": "2026-09-14..2026-09-21",
    "last week": "2026-09-07..2026-09-14",
    "the week before last": "2026-08-31..2026-09-07",
    "this weekend": "2026-09-19..2026-09-21",
    "last weekend": "2026-09-12..2026-09-14",
    "this month": "2026-09-01..2026-10-01",
    "last month": "2026-08-01..2026-09-01",
    "3 days ago": "2026-09-13",
    "three weeks ago": "2026-08-24..2026-08-31",
    "a month ago": "2026-08-01..2026-09-01",
    "twelve months ago": "2025-09-01..2025-10-01",
    "a couple of years ago": "2024-01-01..2025-01-01",
    "in the last 3 days": f"2026-09-13..{TOMORROW}",
    "over the past two weeks": f"2026-09-02..{TOMORROW}",
    "in the last week": f"2026-09-09..{TOMORROW}",
    "on Wednesday": "2026-09-16",
    "last Wednesday": "2026-09-09",
    "this Wednesday": "2026-09-16",
    "on Thursday": "2026-09-10",
    "last Monday": "2026-09-14",
    "since Monday": f"2026-09-14..{TOMORROW}",
    # seasons
    "last spring": "2026-03-01..2026-06-01",
    "last summer": "2026-06-01..2026-09-01",
    "last autumn": "2025-09-01..2025-12-01",
    "last fall": "2025-09-01..2025-12-01",
    "last winter": "2025-12-01..2026-03-01",
    "this fall?": "2026-09-01..2026-12-01",
    "summer of 2023": "2023-06-01..2023-09-01",
    "summer last year": "2025-06-01..2025-09-01",
    "winter 2023": "2022-12-01..2023-03-01 2023-12-01..2024-03-01",
    # open to one side
    "before 2023": "1970-01-01..2023-01-01",
    "prior to March 2023": "1970-01-01..2023-03-01",
    "until 2022": "1970-01-01..2023-01-01",
    "by July 2023": "1970-01-01..2023-08-01",
    "since March": f"2026-03-01..{TOMORROW}",
    "after 12 May 2024": f"2024-05-13..{TOMORROW}",
    "from July 2023 onwards": f"2023-07-01..{TOMORROW}",
    "before last summer": "1970-01-01..2026-06-01",
    "the day before July 31, 2023": "2023-07-30",
    "the week after the 9th of June 2023": "2023-06-10..2023-06-17",
    "two weeks before 4 July 2023": "2023-06-20..2023-06-27",
    "3 days after 4 July 2023": "2023-07-07",
    "the Monday before July 24, 2023": "2023-07-17..2023-07-24",
    "last weekend before April 10, 2023": "2023-04-03..2023-04-10",
    # from one to another
    "between March and May 2023": "2023-03-01..2023-06-01",
    "between November and February 2023": "2022-11-01..2023-03-01",
    "from November 2022 to February": "2022-11-01..2023-03-01",
    "from 3 to 9 July 2023": "2023-07-03..2023-07-10",
    "July 3-9, 2023": "2023-07-03..2023-07-10",
    "between 28 June and 3 July 2023": "2023-06-28..2023-07-04",
    "2021-2023": "2021-01-01..2024-01-01",
    "2021 – 2023": "2021-01-01..2024-01-01",
    "from 2021 to 2023": "2021-01-01..2024-01-01",
    "between 2021 and 2023 we moved": "2021-01-01..2024-01-01",
    "from last Monday to yesterday": "2026-09-14..2026-09-16",
    # other languages, and other signs
    "14. März 2026": "2026-03-14",
    "am 3. Mai 2024": "2024-05-03",
    "mars 2023": "2023-03-01..2023-04-01",
    "le 14 juillet 2023": "2023-07-14",
    "3 de mayo de 2024": "2024-05-03",
    "Dezember 2023": "2023-12-01..2024-01-01",
    "mid\u2011June 2023": "2023-06-11..2023-06-21",
    "Anna’s 2023 plan": "2023-01-01..2024-01-01",
    "ｊｕｌｙ　２０２３": "2023-07-01..2023-08-01",
    "Ma\u0308rz 2026": "2026-03-01..2026-04-01",
    # several
    "yesterday or on 31 July 2023": "2023-07-31 2026-09-15",
    "In 2021 and 2023 we moved": "2021-01-01..2022-01-01 2023-01-01..2024-01-01",
    "in July 2023, or between June and August 2023": "2023-06-01..2023-09-01",
}


@pytest.mark.parametrize(("text", "times"), ONE_TIME.items())
def test_a_query_names_its_times(text: str, times: str) -> None:
    assert named(text) == times
    assert named(f"So, {text}") == named(f'"{text}"') == times


@pytest.mark.parametrize("text", ["on July 31", "31st of July", "Jul 31", "jul 31st", "le 31 juillet"])
def test_a_day_without_a_year_is_that_of_each_of_the_last_ten_years(text: str) -> None:
    assert named(text).split() == [f"{year}-07-31" for year in range(2017, 2027)]


def test_a_day_that_this_year_has_not_seen_yet_is_of_the_ten_years_before() -> None:
    assert named("October 31").split() == [f"{year}-10-31" for year in range(2016, 2026)]


def test_the_29th_of_february_is_of_the_years_that_have_one() -> None:
    assert named("on February 29").split() == ["2016-02-29", "2020-02-29", "2024-02-29"]


@pytest.mark.parametrize("text", ["in July", "What about the July trip?", "during july", "of July"])
def test_a_month_without_a_year_is_that_of_each_of_the_last_ten_years(text: str) -> None:
    assert named(text).split() == [f"{year}-07-01..{year}-08-01" for year in range(2017, 2027)]


@pytest.mark.parametrize(
    "text", ["in May", "in may", "in march", "before May", "early April", "in June", "during March"]
)
def test_a_month_that_is_also_a_word_counts_after_a_word_for_a_time(text: str) -> None:
    assert spans(text, NOW)


def test_a_stretch_without_a_year_is_that_of_every_year() -> None:
    times = named("from November to February").split()
    assert times[-2:] == ["2024-11-01..2025-03-01", "2025-11-01..2026-03-01"]


def test_last_night_is_the_evening_of_yesterday_and_the_first_hours_of_today() -> None:
    night = Span(datetime(2026, 9, 15, 18, tzinfo=UTC), datetime(2026, 9, 16, 6, tzinfo=UTC))
    assert spans("What did we say last night?", NOW) == (night,)


def test_last_winter_in_winter_is_the_one_that_is_over() -> None:
    assert named("last winter", datetime(2026, 2, 3, tzinfo=UTC)) == "2024-12-01..2025-03-01"
    assert named("this winter", datetime(2026, 2, 3, tzinfo=UTC)) == "2025-12-01..2026-03-01"


def test_open_spans_begin_with_the_oldest_year_and_nothing_is_older() -> None:
    assert spans("before 2023", NOW, oldest=2015)[0].start == datetime(2015, 1, 1, tzinfo=UTC)
    assert spans("in 1984", NOW, oldest=1985) == spans("May 1984", NOW, oldest=1985) == ()


def test_years_after_the_next_are_none() -> None:
    assert named("in 2027") == "2027-01-01..2028-01-01"
    assert named("in 2028") == ""


def test_only_the_latest_spans_are_given_where_there_are_many() -> None:
    found = spans("in January, in March, in June", NOW)
    assert len(found) == MOST
    assert found[-1].start.date() == date(2026, 6, 1)


def test_only_the_beginning_of_a_text_is_read() -> None:
    assert spans("x" * (READ - 10) + " today", NOW)
    assert spans("x" * READ + " today", NOW) == ()


# ---------------------------------------------------------------- what is no time

NO_TIME = """
I may go to the park
You may 5 times ask
We march 3 miles a day
march on
March for our rights
May I ask a question?
May Anna come along?
those who come early may leave
the April I know from school
April and June are friends
my friend June
Who is Jan?
a second opinion
the second item on the list
the sun is out
he sat down
mon ami
they wed in secret
a paper on Sun
2 mars bars
the planet Mars 2020
Set 3 avril lavigne songs
2 mayo sandwiches
the birthday of Julian
convert dec to hex
dec 10 to hex
convert 10 in octal
sort by mar
Ubuntu 20.04
version 2.2023
v2023
v2023.1
POL-2023
CVE-2023-1234
model 2021-X
192.168.20.23
10.0.2023.4
phone 555-2023
at 20:23
it cost $2000
it cost 2000 dollars
in 2000 words
2000 people came
2023 items in the list
one of 2000 users
a 2020px image
1,2023 of them
error 2023
port 2020?
Windows 2000?
Office 2019
RFC 2045?
Did I finish 1984?
Blade Runner 2049
31/31/2023
2023-13-40
31 February 2023
the fall of Rome
a spring in the mattress
this spring application
this fall detector
I fall asleep
summer dresses
weekday opening hours
day by day
a day at the beach
the last day of school
the last week of the course
the last year of school
the last 2 days of the trip
at the last minute
300 million years ago
1,000 years ago
how many weeks are in a year
year
nowadays
monthly report
every Monday
on Mondays
on Friday nights
next Monday
next July
next summer
next year
tomorrow
the day after tomorrow
as it is today
even today
"""


@pytest.mark.parametrize("text", NO_TIME.splitlines()[1:])
def test_a_query_that_is_not_about_time_names_none(text: str) -> None:
    assert spans(text, NOW) == ()


def test_an_empty_query_names_none() -> None:
    assert spans("", NOW) == ()


# ---------------------------------------------------------------- zones


def test_days_are_those_of_the_zone_of_now() -> None:
    now = datetime(2026, 9, 16, 23, 30, tzinfo=UTC)
    assert spans("today", now.astimezone(BERLIN))[0].start == datetime(2026, 9, 16, 22, tzinfo=UTC)
    assert spans("today", now.astimezone(NEW_YORK))[0].start == datetime(2026, 9, 16, 4, tzinfo=UTC)


@pytest.mark.parametrize(("day", "hours"), [("29 March 2026", 23), ("25 October 2026", 25), ("30 March 2026", 24)])
def test_a_day_on_which_the_clock_changes_is_shorter_or_longer(day: str, hours: int) -> None:
    (span,) = spans(day, NOW.astimezone(BERLIN))
    assert span.end.astimezone(UTC) - span.start.astimezone(UTC) == timedelta(hours=hours)


def test_a_day_whose_midnight_was_skipped_begins_an_hour_later() -> None:
    (span,) = spans("4 November 2018", NOW.astimezone(SAO_PAULO))
    assert span.start.astimezone(UTC) == datetime(2018, 11, 4, 3, tzinfo=UTC)
    assert span.end.astimezone(UTC) - span.start.astimezone(UTC) == timedelta(hours=23)


def test_a_day_that_a_zone_never_had_is_none() -> None:
    assert spans("30 December 2011", NOW.astimezone(APIA)) == ()
    assert named("29 December 2011", NOW.astimezone(APIA)) == "2011-12-29"


def test_a_now_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no zone"):
        spans("today", NOW.replace(tzinfo=None))


# ---------------------------------------------------------------- whatever is asked

PIECES = (
    "in since until before after between and from to the of last this next past ago early mid late end week year "
    "weeks months days years weekend summer winter fall day May may march July jul Dec dec March mars mayo März Monday "
    "on today yesterday night 2023 1999 2026 0 3 31 29 9th 12.05.2024 2024-02-30 3/4/2023 - , . ' \u2013 999 a couple "
    "of this\0 ſ İ ı K \u0660 \ufdfa"
).split(" ")
TEXTS = st.one_of(
    st.text(),
    st.lists(st.sampled_from(PIECES), max_size=20).map(" ".join),
    st.lists(st.sampled_from(PIECES)).map("".join),
)
ZONES = st.sampled_from([UTC, BERLIN, NEW_YORK, SAO_PAULO, APIA, timezone(timedelta(hours=23, minutes=59))])
NOWS = st.one_of(
    st.datetimes(timezones=ZONES),
    st.datetimes(datetime(1965, 1, 1), datetime(2040, 1, 1), timezones=ZONES),
    st.sampled_from([datetime.min, datetime.max]).map(lambda edge: edge.replace(tzinfo=BERLIN)),
)


@settings(max_examples=400, deadline=None)
@given(TEXTS, NOWS, st.sampled_from([1, 1970, 2020, 9999]))
@example("999 years ago, last July, yesterday, before 1900", datetime(1, 1, 1, tzinfo=UTC), 1)
@example("999 years ago, last July, yesterday, before 1900", datetime(9999, 12, 31, tzinfo=UTC), 1)
@example("999 years before today, 999 years after yesterday", datetime(8000, 12, 31, tzinfo=UTC), 1)
@example("999 years ago, 999 weeks ago, 999 years before 1 January 1900", datetime(1900, 1, 1, tzinfo=UTC), 1)
def test_any_text_at_any_time_gives_spans_that_are_sorted_disjoint_and_in_the_zone(
    text: str, now: datetime, oldest: int
) -> None:
    found = spans(text, now, oldest)
    in_utc = [(span.start.astimezone(UTC), span.end.astimezone(UTC)) for span in found]

    assert len(found) <= MOST
    assert all(start < end for start, end in in_utc)
    assert all(one[1] <= two[0] for one, two in pairwise(in_utc))
    assert all(span.start.tzinfo is span.end.tzinfo is now.tzinfo for span in found)
    assert all(oldest <= span.start.year and span.end.year <= now.year + 2 for span in found)


@given(st.dates(date(1970, 1, 1), date(2026, 9, 16)))
def test_a_written_day_is_found_in_every_form(day: date) -> None:
    month = f"{day:%B}"
    forms = (day.isoformat(), f"{day.day} {month} {day.year}", f"on {month} {day.day}, {day.year}")
    assert {named(form) for form in forms} == {day.isoformat()}
    assert day.isoformat() in named(f"{day:%d/%m/%Y}").split()


@pytest.mark.parametrize(
    "piece", ["may ", "1 ", "2023 - ", "in july 3 to ", " \t", "last ", "this past ", "july-", "early of in ", "\ufdfa"]
)
def test_no_text_takes_long(piece: str) -> None:
    begin = time.perf_counter()
    spans(piece * 500_000 + "may", NOW)
    spans("may" + piece * 500_000, NOW)
    assert time.perf_counter() - begin < 0.5
