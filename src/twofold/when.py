"""Which times a query names: dates, months, years and the words that are read from today. Pure.

Precision comes before recall: a word that is not surely about time names none. A day, a month, a season or a weekday
without a year is every one of the last ten years, or, after "last", the latest that is over. Weeks begin on Monday.
Seasons are those of the north, by whole months: spring is March to May.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import NamedTuple, TypeAlias

from twofold import timewords
from twofold.errors import InvalidInput

READ = 2000  # characters of a text that are looked at
MOST = 16  # spans of one text, the latest
YEARS = 10  # how far back a day or a month without a year is meant
FIRST_YEAR, LAST_YEAR = 1900, 8000  # of the calendar that is reckoned with

_Stretch: TypeAlias = tuple[datetime, datetime]  # without a zone
_Yearly: TypeAlias = Callable[[int], _Stretch | None]


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time from `start` to before `end`, both aware."""

    start: datetime
    end: datetime


class _Text(NamedTuple):
    """A text as written and in small letters, of the same length; the day of now and the first that counts."""

    shown: str
    low: str
    today: datetime
    first: datetime

    def before(self, place: int) -> list[str]:
        """The last three words before a place, articles left out; none where it does not begin a word."""
        if place and not self.low[place - 1].isspace() and self.low[place - 1] not in "(\"'":
            return []
        words = self.low[max(0, place - 60) : place].split()
        return [word.strip("(\"'") for word in words if word != "the"][-3:]

    def has_the(self, place: int) -> bool:
        return self.low[max(0, place - 9) : place].rstrip().endswith("the")

    def is_capital(self, place: int) -> bool:
        return self.shown[place].isupper()

    def ends_clause(self, place: int) -> bool:
        return timewords.CLAUSE_END.match(self.low, place) is not None

    def lead(self, place: int) -> str:
        """The last word before a place, articles left out."""
        return (self.before(place) or [""])[-1]


class _Named(NamedTuple):
    """What a text names from `begin` to `end`: fixed, or of a year or all; not `sure` is only the end of a stretch."""

    begin: int
    end: int
    sure: bool
    fixed: tuple[_Stretch, ...] = ()
    yearly: _Yearly | None = None
    year: int | None = None


def spans(text: str, now: datetime, oldest: int = 1970) -> tuple[Span, ...]:
    """The times that a text names, sorted, disjoint, the latest MOST of them; empty where it names none.

    `now` is aware and in the asker's zone, in which days begin. An open span ("before 2023", "since March") begins
    with the year `oldest` or ends with today; no span begins earlier. Raises InvalidInput where `now` has no zone.
    """
    if now.tzinfo is None:
        raise InvalidInput(f"now is {now.isoformat()}, which has no zone; give an aware time")
    shown = text[:READ]
    if not shown.isascii():
        shown = unicodedata.normalize("NFKC", shown).translate(timewords.OLD)[:READ]
    low = shown.lower()
    first = max(oldest, FIRST_YEAR)
    if not timewords.HINT.search(low) or not first <= now.year <= LAST_YEAR:
        return ()
    read = _Text(shown, low, datetime(now.year, now.month, now.day), datetime(first, 1, 1))
    bounds = read.first, datetime(now.year + 2, 1, 1)
    stretches = _stretches(read, _named(read))
    found = [Span(*(time.replace(tzinfo=now.tzinfo) for time in stretch)) for stretch in _merged(stretches, bounds)]
    # Where the clock skips a whole day that day is empty.
    return tuple(s for s in found if s.start.astimezone(timezone.utc) < s.end.astimezone(timezone.utc))[-MOST:]


def _named(text: _Text) -> list[_Named]:
    """The expressions of a text in order, none within another."""
    named, low = [], text.low
    for pattern, read in _READERS:
        for match in re.finditer(pattern, low):  # compiled when first used: most programs ask no such question
            found = read(match, text)
            if found:
                named.append(found)
                low = low[: match.start()] + "\0" * len(match[0]) + low[match.end() :]
    return sorted(named, key=lambda one: one.begin)


def _stretches(text: _Text, named: Sequence[_Named]) -> list[_Stretch]:
    """What the expressions say together with the words before and between them."""
    stretches: list[_Stretch] = []
    rest = list(reversed(named))
    while rest:
        one = rest.pop()
        if rest and _are_joined(text, one, rest[-1]):
            stretches += _from_to(one, rest.pop(), text.today)
        elif one.sure:
            stretches += _bounded(text, one)
    return stretches


def _are_joined(text: _Text, one: _Named, two: _Named) -> bool:
    """Whether two expressions are the ends of one stretch."""
    lead = text.lead(one.begin)
    if not (lead in timewords.RANGE_LEADS or one.sure or two.sure):
        return False
    joint = timewords.JOINT.fullmatch(text.low, one.end, two.begin)
    return joint is not None and (joint[1] != "and" or lead == "between")


def _from_to(one: _Named, two: _Named, today: datetime) -> list[_Stretch]:
    """The stretches from one time to another; a year that one of them lacks is the other's, or the next to it."""
    if one.yearly and two.yearly and not (one.year and two.year):
        by_end = one.year is None
        known, yearly = (two, one.yearly) if by_end else (one, two.yearly)
        pairs = []
        for time in _times(known, today):
            there = time[0].year
            beside = [yearly(year) for year in (there, there - 1 if by_end else there + 1)]
            pairs += [(s, time) if by_end else (time, s) for s in beside if s and (s < time) == by_end][:1]
    else:
        pairs = list(zip(_times(one, today)[-1:], _times(two, today)[-1:], strict=False))
    return [(left[0], right[1]) for left, right in pairs]


def _bounded(text: _Text, one: _Named) -> list[_Stretch]:
    """The times of an expression, or what is before or after the latest of them if a word says so."""
    times = _times(one, text.today)
    count, unit, word = ["", "", "", *text.before(one.begin)][-3:]
    if word == "to" and unit in ("prior", "up"):
        word = "before" if unit == "prior" else "until"
    elif word == "from" and timewords.ONWARDS.match(text.low, one.end):
        word = "since"
    elif word == "by" and text.has_the(one.begin):  # "by the 2010 flood"
        word = ""
    end = text.today + timedelta(1)
    if word == "after":
        times = [time for time in times if time[1] <= end]
    if not times or word not in timewords.OPENING:
        return times
    start, stop = times[-1]
    if word in ("before", "after") and unit.removesuffix("s") in timewords.DAYS:
        width = timedelta(timewords.DAYS[unit.removesuffix("s")])
        far = width * _count(count)
        return [(start - far, start - far + width) if word == "before" else (stop + far - width, stop + far)]
    bounds = {"first": text.first, "start": start, "stop": stop, "end": end}
    return [(bounds[timewords.OPENING[word][0]], bounds[timewords.OPENING[word][1]])]


def _times(one: _Named, today: datetime) -> list[_Stretch]:
    if one.yearly is None:
        return list(one.fixed)
    if one.year is None:
        return _every(one.yearly, today)
    return [time for time in (one.yearly(one.year),) if time]


def _every(yearly: _Yearly, today: datetime) -> list[_Stretch]:
    times = (yearly(year) for year in range(today.year - YEARS, today.year + 1))
    return [time for time in times if time and time[0] <= today][-YEARS:]


def _merged(stretches: Iterable[_Stretch], bounds: _Stretch) -> list[_Stretch]:
    merged: list[_Stretch] = []
    for start, end in sorted(stretches):
        start, end = max(start, bounds[0]), min(end, bounds[1])
        if start >= end:
            continue
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _months(year: int, month: int, count: int) -> _Stretch:
    """So many months from one on, which may lie in a year before or after."""
    first = 12 * year + month - 1
    start, end = (datetime(index // 12, index % 12 + 1, 1) for index in (first, first + count))
    return start, end


def _within(year: int, *, month: int | None, days: tuple[int, int] | None = None, part: str = "") -> _Stretch | None:
    """A year, a month or days of it, or its first, second or last third; None where there is no such day."""
    third = timewords.THIRDS.get(part[:2])
    if month is None:
        return _months(year, 1, 12) if third is None else _months(year, 1 + 4 * third, 4)
    start, end = _months(year, month, 1)
    if third is not None:
        return start + timedelta(10 * third), end if third == 2 else start + timedelta(10 * third + 10)
    if days is None:
        return start, end
    begin, stop = start + timedelta(days[0] - 1), start + timedelta(days[1])
    return (begin, stop) if begin < stop <= end else None


def _which(year: str | None, today: datetime) -> int | None:
    return None if not year else int(year) if year.isdecimal() else today.year - year.startswith("last")


def _fixed(match: re.Match[str], *stretches: _Stretch) -> _Named:
    return _Named(*match.span(), True, stretches)


def _calendar(
    match: re.Match[str], yearly: _Yearly, year: int | None, own: str, today: datetime, sure: bool = True
) -> _Named | None:
    """What comes back every year: of one year, of all, or by the word before it the latest that is over, or this."""
    if year is not None or not own:
        return _Named(*match.span(), sure, yearly=yearly, year=year)
    if own == "next":
        return None
    times = [time for time in _every(yearly, today) if (time[1] > today) == (own == "this")]
    coming = yearly(today.year)
    return _fixed(match, *times[-1:]) if times or own != "this" or not coming else _fixed(match, coming)


def _read_iso(match: re.Match[str], text: _Text) -> _Named | None:
    """2026-03-14, 2026-03."""
    days = (int(match["day"]), int(match["day"])) if match["day"] else None
    return _calendar(match, partial(_within, month=int(match["month"]), days=days), int(match["year"]), "", text.today)


def _read_numbers(match: re.Match[str], text: _Text) -> _Named | None:
    """14/03/2026: the day first, or the month, or either where both can be."""
    one, two, year = int(match["one"]), int(match["two"]), int(match["year"])
    readings = {_within(year, month=m, days=(d, d)) for d, m in ((one, two), (two, one)) if 1 <= m <= 12 and d}
    times = sorted(time for time in readings if time)
    return _fixed(match, *times) if times else None


def _read_day(match: re.Match[str], text: _Text) -> _Named | None:
    """31 July, July 31st 2023, 3 to 9 July."""
    name, year, own = match["month"], _which(match["year"], text.today), match["own"] or ""
    lead = text.lead(match.start())
    if not (year or own or match["th"]):
        if name in timewords.ABROAD and lead not in timewords.FOREIGN_LEADS and " de " not in match[0]:
            return None
        if name in timewords.DOUBTFUL and lead not in timewords.DAY_LEADS and not text.is_capital(match.start("month")):
            return None
    days = int(match["day"]), int(match["to"] or match["day"])
    yearly = partial(_within, month=timewords.NUMBER_OF[name], days=(min(days), max(days)))
    return _calendar(match, yearly, year, own, text.today)


def _read_month(match: re.Match[str], text: _Text) -> _Named | None:
    """July 2023, early July, last July; alone only where no other word is meant."""
    name, part, year = match["month"], match["part"] or "", _which(match["year"], text.today)
    own, lead = match["own"] or "", text.lead(match.start())
    is_capital = text.is_capital(match.start("month"))
    if name in timewords.ABROAD:
        if year is None or (name == "mars" and is_capital):  # the planet
            return None
        sure = True
    else:
        sure = bool(year or name in timewords.CLEAR or own == "last" or (lead in timewords.SURE_LEADS and not part))
        sure = sure or ((is_capital or name not in timewords.DOUBTFUL) and bool(part or own or lead in timewords.LEADS))
        if not (sure or is_capital or lead in timewords.RANGE_LEADS or lead in ("to", "and")):
            return None
    return _calendar(match, partial(_within, month=timewords.NUMBER_OF[name], part=part), year, own, text.today, sure)


def _read_season(match: re.Match[str], text: _Text) -> _Named | None:
    """Last summer, summer of 2023; the winter of a year is both that touch it."""
    year, month, own = _which(match["year"], text.today), timewords.SEASONS[match["season"]], match["own"] or ""
    yearly = partial(_months, month=month, count=3)
    if year is not None:
        return _fixed(match, *(yearly(y) for y in ((year - 1, year) if month == 12 else (year,))))
    # "This spring application" and "this fall detector" are none.
    is_other = own == "this" and match["season"] in ("spring", "fall") and not text.ends_clause(match.end())
    return _calendar(match, yearly, None, own, text.today) if own and not is_other else None


def _read_year(match: re.Match[str], text: _Text) -> _Named | None:
    """2023, early 2023, the 1990s, last year; a number is one by the word before it, or at the end of a clause."""
    year, part = _which(match["year"], text.today), match["part"] or ""
    before, has_the = text.before(match.start()), text.has_the(match.start())
    lead = before[-1] if before else ""
    if year is None or not text.first.year <= year <= text.today.year + 1:
        return None
    if match["year"].isdecimal():
        counted = timewords.NEXT_WORD.match(text.low, match.end())
        if counted and (counted[1] in timewords.COUNTED or (year % 10 == 0 and counted[1].endswith("s"))):
            return None
        is_last = year >= 2000 and lead not in timewords.NUMBERED and text.ends_clause(match.end())
        is_listed = lead in ("and", "or") and len(before) > 1 and re.fullmatch(timewords.YEAR, before[-2]) is not None
        sure = bool(part) or lead in timewords.YEAR_LEADS or has_the or lead.endswith("'s") or is_last or is_listed
    else:
        sure = not has_the and not timewords.OF.match(text.low, match.end())
    if match["decade"] and year % 10 == 0:
        return _fixed(match, _months(year, 1, 120)) if sure else None
    return _calendar(match, partial(_within, month=None, part=part), year, "", text.today, sure)


def _read_years(match: re.Match[str], text: _Text) -> _Named | None:
    """2021-2023."""
    one, two = int(match["one"]), int(match["two"])
    return _fixed(match, _months(one, 1, 12 * (two - one + 1))) if one < two <= text.today.year + 1 else None


def _read_weekday(match: re.Match[str], text: _Text) -> _Named | None:
    """Last Monday, which is over; on Monday, which may be today."""
    own, back = match["own"], text.today.weekday() - timewords.WEEKDAYS[match["day"]] + 1
    if own == "next" or not (own or text.lead(match.start()) in timewords.WEEKDAY_LEADS):
        return None
    if own != "this":
        back = back % 7 or (7 if own else 0)
    return _fixed(match, _unit_ago("day", back, text.today))


def _read_near(match: re.Match[str], text: _Text) -> _Named | None:
    """Today, and the days before it; "even today" is no day."""
    if match[0] == "today" and text.lead(match.start()) in timewords.VAGUE_LEADS:
        return None
    if match[0].endswith("yesterday"):
        return _fixed(match, _unit_ago("day", 2 if "before" in match[0] else 1, text.today))
    if match[0].startswith("last"):
        return _fixed(match, (text.today - timedelta(hours=6), text.today + timedelta(hours=6)))
    return _fixed(match, _unit_ago("day", 0, text.today))


def _read_unit(match: re.Match[str], text: _Text) -> _Named:
    """Three weeks ago, this week, last month, the week before last: the whole of it."""
    back = match["back"]
    count = timewords.BACK[back] if back in timewords.BACK else _count(back)
    return _fixed(match, _unit_ago(match["unit"], count, text.today))


def _read_past(match: re.Match[str], text: _Text) -> _Named:
    """In the last three weeks: up to the end of today."""
    days = timewords.DAYS[match["unit"]] * _count(match["count"] or "")
    return _fixed(match, (text.today - timedelta(days), text.today + timedelta(1)))


def _count(text: str) -> int:
    """A number of up to three digits or a word for one, 1 where it is neither."""
    return int(text) if text.isdecimal() and len(text) <= 3 else timewords.NUMBERS.get(" ".join(text.split()), 1)


def _unit_ago(unit: str, back: int, today: datetime) -> _Stretch:
    """The whole day, week, weekend, month or year that is so many back."""
    if unit == "year":
        return _months(today.year - back, 1, 12)
    if unit == "month":
        return _months(today.year, today.month - back, 1)
    if unit == "day":
        return today - timedelta(back), today - timedelta(back - 1)
    monday = today - timedelta(today.weekday() + 7 * back)
    return (monday + timedelta(5) if unit == "weekend" else monday), monday + timedelta(7)


_READERS: tuple[tuple[str, Callable[[re.Match[str], _Text], _Named | None]], ...] = (
    # In order: what an earlier one has read is not there for a later one.
    (timewords.ISO_DAY, _read_iso),
    (timewords.NUMBERS_DAY, _read_numbers),
    (timewords.ISO_MONTH, _read_iso),
    (timewords.DAY_FIRST, _read_day),
    (timewords.MONTH_FIRST, _read_day),
    (timewords.MONTH_ALONE, _read_month),
    (timewords.SEASON_ALONE, _read_season),
    (timewords.YEARS, _read_years),
    (timewords.NEAR, _read_near),
    (timewords.AGO, _read_unit),
    (timewords.LAST_UNITS, _read_past),
    (timewords.BEFORE_LAST, _read_unit),
    (timewords.UNIT, _read_unit),
    (timewords.YEAR_ALONE, _read_year),
    (timewords.WEEKDAY, _read_weekday),
)
