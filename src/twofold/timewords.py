"""The words for times, and the pieces of the patterns that `when` reads them with. Data only.

Patterns are for text in small letters with plain hyphens and apostrophes; each takes time linear in its text.
"""

from __future__ import annotations

import re

ENGLISH = (
    "january jan,february feb,march mar,april apr,may,june jun,july jul,august aug,"
    "september sept sep,october oct,november nov,december dec"
)
FOREIGN = (  # German, French, Spanish; only beside a number
    "januar jänner janvier enero,februar février fevrier febrero,märz maerz mars marzo,avril abril,mai mayo,"
    "juni juin junio,juli juillet julio,août aout agosto,septembre septiembre,oktober octobre octubre,"
    "novembre noviembre,dezember décembre decembre diciembre"
)


def _numbered(table: str) -> dict[str, int]:
    return {name: number for number, names in enumerate(table.split(","), 1) for name in names.split()}


MONTHS, ABROAD = _numbered(ENGLISH), _numbered(FOREIGN)
NUMBER_OF = {**MONTHS, **ABROAD}
# Months that no sentence takes for anything else, and those that are words, commands or half words too.
CLEAR = set("january february july september october november december".split())
DOUBTFUL = {"may", "march", "mars", "mayo", "julio", *(name for name in MONTHS if len(name) < 5)} - {"june", "july"}
WEEKDAYS = _numbered("monday mon,tuesday tues tue,wednesday wed,thursday thurs thur thu,friday fri,saturday,sunday")
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
NUMBERS = _numbered("one a an,two,three,four,five,six,seven,eight,nine,ten,eleven,twelve") | {"a couple of": 2}
DAYS = {"day": 1, "night": 1, "week": 7, "weekend": 7, "month": 31, "year": 366} | dict.fromkeys(WEEKDAYS, 7)
BACK = {"this": 0, "last": 1, "past": 1, "before": 2}
# A span that a word before a time opens: from which bound to which.
OPENING = {"before": ("first", "start"), "since": ("start", "end"), "after": ("stop", "end")}
OPENING |= dict.fromkeys(("until", "till", "by"), ("first", "stop"))
VAGUE_LEADS = set("even still as it is are".split())
THIRDS = {"ea": 0, "be": 0, "st": 0, "mi": 1, "la": 2, "en": 2}

# Words before a month without a number: after the first it is one however it is written.
SURE_LEADS = set("in since until last".split())
LEADS = SURE_LEADS | set("before after during till by around throughout through this".split())
RANGE_LEADS = {"from", "between"}
DAY_LEADS = LEADS | {"on", "from", "between"}
YEAR_LEADS = LEADS | set("of from between about year my our his her their your its".split())
WEEKDAY_LEADS = set("on since until till before after".split())
FOREIGN_LEADS = set("le du au am vom zum el al".split())
# What a number is the name of at the end of a sentence, and what a number before it counts.
NUMBERED = set(
    "windows office server studio excel word access sql php room flight bus train gate suite port error code page line "
    "issue pr ticket bug no nr number rfc iso model version build usd eur gbp chf id pin router route mars".split()
)
COUNTED = set(
    "people men women children dollar dollars euro euros pounds usd eur gbp percent px rpm kg km m mm cm mah ms mb gb "
    "tb hz mhz lbs feet ft miles meters metres calories kcal kwh watts pixels tokens words characters lines rows "
    "bytes steps hours minutes seconds days weeks months years times million".split()
)

OLD = str.maketrans("‐‑‒–—−’İ", "------'I")
YEAR = r"(?:19|20)\d\d"
WHICH = rf"(?P<year>{YEAR}|(?:last|this)\s+year)"
DAY = r"(?:3[01]|[12]\d|0?[1-9])"
TH = r"(?:st|nd|rd|th)"
PART = r"(?:(?P<part>early|mid|late|(?:beginning|start|middle|end)\s+of)(?:\s+in)?(?:\s+|-))?(?:the\s+year\s+)?"
START = r"(?<![\w.$€£¥#@/:+=-])(?<!\d,)"
END = r"(?![\w%€£$°]|[.,:/+]\d|-\w|'\d)"
TO = r"(?:\s*-\s*|\s+(?:to|and|until|till|through)\s+(?:the\s+)?)"
MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
ANY_MONTH = "|".join(sorted({**MONTHS, **ABROAD}, key=len, reverse=True))
COUNT = rf"(?:\d{{1,3}}|{'|'.join(sorted(NUMBERS, key=len, reverse=True))})"
SEASON = "|".join(SEASONS)
UNITS = r"(?P<unit>day|week|month|year)s?"
OVER = r"(?:in|over|during|within|for)"
WORD = r"(?<![\w-])"

OWN = r"(?:(?:this\s+)?(?P<own>last|past|this|next)\s+)?"
YEAR_AFTER = rf"(?:(?:,\s*|\s+of\s+|\s+in\s+|\s+del?\s+|\s+|-){WHICH})?{END}"

_HINTS = [*MONTHS, *ABROAD, *WEEKDAYS, *SEASONS, *"yesterday today tonight night morning afternoon evening".split()]
_HINTS += "day days week weeks weekend month months year years".split()
_FIRST_LETTERS = "".join(sorted({word[0] for word in _HINTS}))  # so that most words cost one look
HINT = re.compile(rf"\b(?=[12{_FIRST_LETTERS}])(?:{YEAR}|(?:{'|'.join(_HINTS)})\b)")

JOINT = re.compile(r"\s*(-|to|and|until|till|through)\s*(?:the\s+)?")
ONWARDS = re.compile(r"\s+onwards?\b")
NEXT_WORD = re.compile(r"\s+([a-z]+)")
CLAUSE_END = re.compile(r"\s*(?:$|[?!.,;:\"'])")
OF = re.compile(r"\s+of\b")

DAY_FIRST = (
    rf"{START}{OWN}(?:(?P<to>{DAY}){TH}?{TO})?(?P<day>{DAY})(?P<th>{TH}|\.)?"
    rf"(?:\s+of\s+(?:the\s+)?|\s+de\s+|[\s-]{{1,3}})(?P<month>{ANY_MONTH})\b\.?{YEAR_AFTER}"
)
MONTH_FIRST = (
    rf"{WORD}{OWN}(?P<month>{MONTH})\b\.?\s+(?:the\s+)?(?P<day>{DAY})(?P<th>{TH})?"
    rf"(?:{TO}(?P<to>{DAY}){TH}?)?{YEAR_AFTER}"
)
RELATED = r"(?!\s+(?:before|after)\s+(?:the\s+)?\0)"  # "the Monday before" a time that was read already
PAST = rf"(?:(?:(?:the|this)\s+)?(?:last|past)\s+(?P<count>{COUNT})|(?:{OVER}\s+the\s+last|(?:the|this)\s+past))"
HABIT = r"(?!-|,?\s+(?:the\s+)?(?:[\d\0]|(?:night|evening|afternoon|morning)s))" + RELATED

ISO_DAY = rf"{START}(?P<year>{YEAR})([-/.])(?P<month>0?[1-9]|1[0-2])\2(?P<day>{DAY})(?:(?=t\d\d:)|{END})"
ISO_MONTH = rf"{START}(?P<year>{YEAR})-(?P<month>0[1-9]|1[0-2])(?P<day>){END}"
NUMBERS_DAY = rf"{START}(?P<one>\d\d?)([-/.])(?P<two>\d\d?)\2(?P<year>{YEAR}){END}"
MONTH_ALONE = rf"{WORD}{PART}{OWN}(?P<month>{ANY_MONTH})\b\.?{YEAR_AFTER}"
SEASON_ALONE = rf"{WORD}{OWN}(?P<season>{SEASON})\b{YEAR_AFTER}"
YEAR_ALONE = rf"{START}{PART}{WHICH}(?P<decade>'?s)?{END}"
YEARS = rf"{START}(?P<one>{YEAR})\s?-\s?(?P<two>{YEAR}){END}"
WEEKDAY = rf"{WORD}{OWN}(?P<day>{'|'.join(WEEKDAYS)})\b{HABIT}"
NEAR = (
    rf"{WORD}(?:(?:the\s+day\s+before\s+)?yesterday|today|tonight|last\s+night|this\s+(?:morning|afternoon|evening))\b"
)
AGO = rf"(?<![\w.,-])(?P<back>{COUNT})\s+{UNITS}\s+ago\b"
LAST_UNITS = rf"{WORD}{PAST}\s+{UNITS}\b(?!\s+of\b)"
BEFORE_LAST = rf"{WORD}the\s+(?P<unit>week|weekend|month|year)\s+(?P<back>before)\s+last\b"
UNIT = rf"{WORD}(?<!\bthe )(?:this\s+)?(?P<back>last|past|this)\s+(?P<unit>weekend|week|month)\b(?!\s+of\b){RELATED}"
