"""Words for times in English, German, Spanish, French and Chinese, and regular expressions for phrases that name
times.

Names of months, weekdays, units and days ("yesterday", "前天") come from dateparser, which takes them from CLDR.
dateparser's own search is not used: it takes "may", "sat" and "second" for times, and is slow. Connecting words
("last", "ago", "in the") are defined here. Texts are matched in the form that `flat` returns, which keeps positions.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

from msgspec import Struct

_HAN: Final = str.maketrans("週這個兩禮後號過來時間鐘從", "周这个两礼后号过来时间钟从")
"""Traditional characters used in times, mapped to the simplified ones that the patterns contain."""
_MARKS: Final = str.maketrans(
    {"’": "'", "‘": "'", "ʼ": "'", "\u00a0": " ", "\u3000": " ", "‑": "-", "‐": "-", "\n": " ", "\t": " "}
)
_OTHERS: Final = frozenset([*map(chr, _HAN), *"\u3000０１２３４５６７８９"])
"""Characters from U+2E80 on, such as Chinese ones, that `flat` changes. It keeps all others from there on."""
_UNITS: Final = ("year", "month", "week", "day", "hour", "minute")
_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june", "july", "august"),
    *("september", "october", "november", "december"),
)
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DIGITS: Final = {character: number for number, character in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}


class Pattern(Struct, frozen=True):
    """One way to name a time.

    `kind`: selects the function that interprets the groups of the pattern `source` (`times._KINDS`). `shift`: a
    number for this function, such as how many units before the current one the period lies.
    """

    kind: str
    source: str
    shift: int
    needs: frozenset[str] | None
    """The pattern can only match a text with one of these words. None: not known, because the pattern contains a
    number, or is Chinese, which is not split into words."""

    @property
    def regex(self) -> re.Pattern[str]:
        """The pattern, compiled at first use: most prompts need none."""
        return _regex(self.source)


class TimeLanguage(Struct, frozen=True):
    """The words and patterns for times in one language. Each mapping is word -> number or name, and words are in
    the form that `flat` returns."""

    language: str
    patterns: tuple[Pattern, ...]
    numbers: Mapping[str, int]
    units: Mapping[str, str]
    months: Mapping[str, int]
    weekdays: Mapping[str, int]
    days: Mapping[str, int]
    """Word for a day -> how many days ago it is."""
    parts: Mapping[str, str]
    years: Mapping[str, int]
    """Phrase such as "last year" after a month or a date -> how many years ago."""
    ways: Mapping[str, re.Pattern[str]]
    """`since`, `after`, `before`, `until` -> pattern of the words before a time that give it this meaning."""
    lead: re.Pattern[str]
    """Words before a time that belong to the phrase, such as "in the"."""
    never_before: re.Pattern[str]
    """Words before a match that exclude it, because it then is no time of the past, such as "next" or "every"."""
    never_after: re.Pattern[str]
    """Words after a match that exclude it for the same reason."""
    tail: re.Pattern[str]
    """Words after a time that make it the beginning or the end of a period (groups `since`, `after`, `before`,
    `until`)."""
    ranges: re.Pattern[str]
    """Words between the two ends of a range."""
    opens: re.Pattern[str]
    """Words before the first end of a range."""


def flat(text: str) -> str:
    """Return `text` in lower case and without accents; each character keeps its position."""
    if text.isascii():
        return text.lower().translate(_MARKS)
    return "".join(map(_flat_character, text))


@cache
def _cached(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character.translate(_MARKS).translate(_HAN))
    plain = plain[:1] if len(plain) > 1 and all(unicodedata.combining(one) for one in plain[1:]) else plain
    lowered = plain.lower()
    return lowered if len(lowered) == 1 else character


def _flat_character(character: str) -> str:
    return _cached(character) if character < "\u2e80" or character in _OTHERS else character


def han_number(text: str) -> int | None:
    """Return the number that Chinese numerals (up to 99) spell, or None."""
    if len(text) == 1 and text in _DIGITS:
        return _DIGITS[text]
    tens, ten, ones = text.partition("十")
    if not ten or len(tens) > 1 or len(ones) > 1 or (tens + ones).strip("一二三四五六七八九两"):
        return None
    return 10 * _DIGITS.get(tens, 1) + _DIGITS.get(ones, 0)


# Parts of the day -> words for them. "<part>" in a pattern stands for any of them.
_PARTS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {"morning": "morning", "afternoon": "afternoon", "evening": "evening", "night": "night"},
    "de": {
        "fruh": "morning", "morgen": "morning", "vormittag": "morning", "mittag": "noon", "nachmittag": "afternoon",
        "abend": "evening", "nacht": "night",
    },
    "es": {
        "manana": "morning", "madrugada": "early", "mediodia": "noon", "tarde": "afternoon", "noche": "night",
    },
    "fr": {"matin": "morning", "midi": "noon", "apres-midi": "afternoon", "soir": "evening", "nuit": "night"},
    "zh": {
        "早上": "morning", "上午": "morning", "早晨": "morning", "清晨": "morning", "凌晨": "early", "中午": "noon",
        "下午": "afternoon", "傍晚": "evening", "晚上": "night", "晚间": "night", "夜里": "night", "夜晚": "night",
        "半夜": "night", "早": "morning", "晚": "night", "夜": "night",
    },
}  # fmt: skip
_NUMBERS: Final[Mapping[str, str]] = {
    "en": "a=1 an=1 one=1 two=2 three=3 four=4 five=5 six=6 seven=7 eight=8 nine=9 ten=10 eleven=11 twelve=12 couple_of=2 a_couple_of=2 "
    "a_dozen=12",
    "de": "ein=1 eine=1 einem=1 einen=1 einer=1 zwei=2 drei=3 vier=4 funf=5 fuenf=5 sechs=6 sieben=7 acht=8 neun=9 zehn=10 elf=11 "
    "zwolf=12 zwoelf=12 vierzehn=14",
    "es": "un=1 una=1 dos=2 tres=3 cuatro=4 cinco=5 seis=6 siete=7 ocho=8 nueve=9 diez=10 once=11 doce=12 quince=15 un_par_de=2",
    "fr": "un=1 une=1 deux=2 trois=3 quatre=4 cinq=5 six=6 sept=7 huit=8 neuf=9 dix=10 onze=11 douze=12 quinze=15",
    "zh": "",
}
# (kind, shift, pattern); a space stands for any white space. The order does not matter: of the earliest matches, the longest counts.
_FORMS: Final[Mapping[str, tuple[tuple[str, int, str], ...]]] = {
    "en": (
        ("day", 0, r"(?:the )?<days>"),
        ("part", 0, r"(?:the )?<days> <parts>"),
        ("part", 0, r"(?:(?:last|this|on) )?<weekdays> <parts>"),
        ("night", 1, r"last (?:night|evening)"),
        ("night", 2, r"the night before last"),
        ("today", 0, r"this <parts>|tonight"),
        ("unit", 1, r"(?:the )?(?:last|previous|prior) (?P<unit>week|month|quarter|year|weekend|fortnight)"),
        ("unit", 2, r"(?:the )?(?P<unit>week|month|year|weekend) before last"),
        ("unit", 0, r"(?:this|the current) (?P<unit>week|month|quarter|year|weekend)"),
        ("unit", 0, r"(?:over|on|at|during) the (?P<unit>weekend)"),
        ("span", 0, r"(?:the |these )?(?:last|past|previous|recent) (?:(?P<n>few|\d{1,4}|<numbers>) )?<units>"),
        ("span1", 0, r"(?:the )?(?:past (?P<unit>day|week|month|year|hour)|last (?P<unit2>hour))"),
        ("span1", 0, r"(?:in|within|over|during) the last (?P<unit>week|month|year)"),
        ("span", 0, r"since <n> <units>"),
        ("ago", 0, r"<n> <units> (?:ago|back)"),
        ("weekday", 0, r"(?:the )?(?:last|this past|previous) <weekdays>"),
        ("weekday", 0, r"(?:on|since|from|of|before|after) <weekdays>"),
        ("weekday", 0, r"<weekdays>(?=\s*(?:[.?!,;:]|$))"),
        ("day_of_week", 1, r"<weekdays>,? (?:of )?last week|last week(?: on)?,? <weekdays>"),
        ("day_of_week", 0, r"this <weekdays>|<weekdays>,? (?:of )?this week"),
        ("month", 0, r"(?:in|during|since|of|throughout|before|after|from|until|back in) (?:the month of )?<month_names>(?:,? (?:of )?(?:<year>|<years>))?"),
        ("month", 0, r"<month_names>,? (?:of )?(?:<year>|<years>)"),
        ("months", 0, r"(?:between|from) <month_names> (?:and|to|until|till|through) <month_names>(?: <year>)?"),
        ("last_month", 0, r"last <month_names>"),
        ("month", 0, r"this (?:past )?<month_names>"),
        ("date", 0, r"<months>\.? (?:the )?<day>(?:st|nd|rd|th)?(?:,? (?:of )?(?:<year>|<years>))?"),
        ("date", 0, r"(?:the )?<day>(?:st|nd|rd|th)?(?: of)? <months>\.?(?:,? (?:of )?(?:<year>|<years>))?"),
        ("monthday", 0, r"on the <day>(?:st|nd|rd|th)"),
        ("year", 0, r"(?:in|during|since|throughout|before|after|back in)(?: the year)? <year>"),
        ("recent", 0, r"recently|lately|recent|these days"),
    ),
    "de": (
        ("day", 0, r"<days>"),
        ("part", 1, r"<days> <parts>"),
        ("part", 0, r"(?:(?:letzten|am) )?<weekdays> ?<parts>"),
        ("night", 1, r"(?:in der )?(?:letzten?|vergangenen?|vorigen?) nacht|gestern nacht"),
        ("today", 0, r"an diesem <parts>"),
        ("unit", 1, r"(?:der |die |das |den |dem )?(?:letzte[nrsm]?|vergangene[nrsm]?|vorige[nrsm]?) (?P<unit>woche|monats?|quartals?|jahr(?:es)?|wochenendes?)"),
        ("unit", 2, r"(?:der |die |das |den |dem )?vorletzte[nrsm]? (?P<unit>woche|monat|jahr|wochenende)"),
        ("unit", 0, r"(?:diese[rnsm]?|dieses|der laufenden|im laufenden) (?P<unit>woche|monats?|quartals?|jahr(?:es)?|wochenende)"),
        ("unit", 0, r"(?:am|ubers) (?P<unit>wochenende)"),
        ("span", 0, r"(?:den |die |der )?(?:letzten|vergangenen|vorigen) (?:(?P<n>paar|\d{1,4}|<numbers>) )?<units>"),
        ("span", 0, r"seit <n> <units>"),
        ("ago", 0, r"vor <n> <units>"),
        ("weekday", 0, r"(?:am )?(?:letzten|vergangenen|vorigen) <weekdays>"),
        ("weekday", 0, r"(?:am|vom|seit|vor|nach) <weekdays>"),
        ("weekday", 0, r"<weekdays>(?=\s*(?:[.?!,;:]|$))"),
        ("day_of_week", 1, r"<weekdays> (?:der )?letzter? woche|letzte woche (?:am )?<weekdays>"),
        ("day_of_week", 0, r"(?:an )?diese[nm] <weekdays>|<weekdays> diese[r]? woche"),
        ("month", 0, r"(?:im|seit|vom|vor|nach|ab)(?: monat)? <month_names>(?: (?:des )?(?:<year>|<years>))?"),
        ("month", 0, r"<months> (?:des )?(?:<year>|<years>)"),
        ("months", 0, r"(?:von|zwischen) <month_names> (?:und|bis) <month_names>(?: <year>)?"),
        ("last_month", 0, r"(?:im )?(?:letzten|vergangenen|vorigen) <month_names>"),
        ("month", 0, r"(?:im )?diese[nms] <month_names>"),
        ("date", 0, r"<day>\.? <months>(?: (?:des )?(?:<year>|<years>))?"),
        ("monthday", 0, r"am <day>ten"),
        ("numbers", 0, r"(?:am|vom|seit|bis) (?P<d>\d{1,2})\.(?P<m>\d{1,2})\."),
        ("year", 0, r"(?:im jahre?|in|seit|wahrend) <year>"),
        ("recent", 0, r"kurzlich|neulich|letztens|vor kurzem|in letzter zeit|in den letzten tagen"),
    ),
    "es": (
        ("day", 0, r"<days>"),
        ("part", 0, r"<days> (?:por|en|a|de) la <parts>"),
        ("part", 0, r"<days> al <parts>"),
        ("part", 0, r"(?:el )?<weekdays>(?: pasado)? por la <parts>"),
        ("night", 1, r"anoche|la noche pasada"),
        ("night", 2, r"anteanoche|antenoche"),
        ("today", 0, r"esta <parts>"),
        ("unit", 1, r"(?:la|el|del) (?P<unit>semana|mes|trimestre|ano|fin de semana) (?:pasad[oa]|anterior)|(?:el|la|del) (?:pasad[oa]|ultim[oa]) (?P<unit2>semana|mes|trimestre|ano|fin de semana)"),
        ("unit", 1, r"(?P<unit>semana|mes|ano) pasad[oa]"),
        ("unit", 2, r"(?:la|el) (?P<unit>semana|mes|ano) antepasad[oa]"),
        ("unit", 0, r"(?:esta|este|de este|de esta) (?P<unit>semana|mes|trimestre|ano|fin de semana)"),
        ("span", 0, r"(?:en |durante )?(?:los |las )?(?:ultim[oa]s|pasad[oa]s) (?:(?P<n>pocos|\d{1,4}|<numbers>) )?<units>"),
        ("span", 0, r"desde hace <n> <units>"),
        ("ago", 0, r"hace <n> <units>|<n> <units> atras"),
        ("weekday", 0, r"(?:el |del )?(?:pasado <weekdays>|<weekdays> pasado)"),
        ("weekday", 0, r"(?:el|del|desde el|antes del|despues del) <weekdays>"),
        ("day_of_week", 1, r"(?:el )?<weekdays> de la semana pasada"),
        ("day_of_week", 0, r"este <weekdays>|(?:el )?<weekdays> de esta semana"),
        ("month", 0, r"(?:en|desde|durante|de|a|del mes de|antes de|despues de|en el mes de) <month_names>(?: (?:de |del )?(?:<year>|<years>))?"),
        ("month", 0, r"<months> (?:de |del )?(?:<year>|<years>)"),
        ("months", 0, r"(?:de|desde|entre) <month_names> (?:a|hasta|y) <month_names>(?: de <year>)?"),
        ("last_month", 0, r"(?:el |en )?(?:<month_names> pasado|pasado <month_names>)"),
        ("date", 0, r"(?:el )?(?:dia )?<day> de <months>(?: (?:de |del )?(?:<year>|<years>))?"),
        ("year", 0, r"(?:en el ano|en|durante|desde) <year>"),
        ("recent", 0, r"recientemente|ultimamente|hace poco|estos dias"),
    ),
    "fr": (
        ("day", 0, r"<days>"),
        ("part", 0, r"<days>(?: au| dans l')? ?<parts>"),
        ("part", 0, r"(?:le )?<weekdays>(?: dernier)? <parts>"),
        ("night", 1, r"(?:dans )?la nuit (?:derniere|passee)"),
        ("today", 1, r"(?:ce|cet|cette) <parts>"),
        ("unit", 1, r"(?:la |le |l'|au |du )?(?P<unit>semaine|mois|trimestre|annee|an|week-?end) (?:derniere?|passee?|precedente?)"),
        ("unit", 1, r"(?:la |le )?derniere? (?P<unit>semaine|mois|trimestre|annee)"),
        ("unit", 0, r"(?:cette|ce|de cette|de ce) (?P<unit>semaine|mois|trimestre|annee|week-?end)(?:-ci)?"),
        ("unit", 0, r"(?:pendant|durant) le (?P<unit>week-?end)"),
        ("span", 0, r"(?:ces |les |des |aux )?(?:<n> derniere?s <units>|derniere?s <units>)"),
        ("span", 0, r"(?:depuis|ces|les) <n> <units>"),
        ("ago", 0, r"il y a <n> <units>"),
        ("weekday", 0, r"(?:le )?<weekdays> (?:dernier|passe)"),
        ("weekday", 0, r"(?:depuis|avant|apres|de) <weekdays>"),
        ("weekday", 0, r"<weekdays>(?=\s*(?:[.?!,;:]|$))"),
        ("day_of_week", 1, r"<weekdays> de la semaine derniere"),
        ("day_of_week", 0, r"ce <weekdays>|<weekdays> de cette semaine"),
        ("month", 0, r"(?:en|depuis|de|au mois de|du mois de|avant|apres|durant|pendant|courant) <month_names>(?: (?:de )?(?:<year>|<years>))?"),
        ("month", 0, r"<months> (?:de )?(?:<year>|<years>)"),
        ("months", 0, r"(?:de|entre) <month_names> (?:a|et|jusqu'en) <month_names>(?: <year>)?"),
        ("last_month", 0, r"(?:en )?<month_names> (?:dernier|passe)"),
        ("date", 0, r"(?:le |du )?<day>(?:er)? <months>(?: (?:de )?(?:<year>|<years>))?"),
        ("year", 0, r"(?:en l'an|en|durant|depuis|pendant) <year>"),
        ("recent", 0, r"recemment|dernierement|ces derniers temps|ces jours-ci|ces derniers jours"),
    ),
    "zh": (
        ("day", 0, r"<days>"),
        ("part", 0, r"(?:<days>|(?P<short>[昨今前])(?=[晚夜早]))的?<parts>"),
        ("part", 0, r"(?<![下每])(?<![下每]个)上?个?<weekdays>的?<parts>"),
        ("unit", 1, r"(?<![上以晚早])上个?(?P<unit>周末|星期|礼拜|周|月|季度)(?![期边围转一二三四五六日天])"),
        ("unit", 2, r"上上个?(?P<unit>周末|星期|礼拜|周|月)(?![期边围转一二三四五六日天])"),
        ("unit", 0, r"(?:这一?|本)个?(?P<unit>周末|星期|礼拜|周|月|季度)(?![期边围转一二三四五六日天份])"),
        ("unit", 0, r"(?<![下每])(?<![下每]个)(?P<unit>周末)"),
        ("years", 0, r"(?P<yearword>今年|去年|前年)(?!\d|[一二三四五六七八九十]{1,2}月)"),
        ("span", 0, r"(?:过去|最近|近|这)的?(?P<n>\d{1,4}|[一二三四五六七八九十两]{1,3}|几)个?(?P<unit>小时|分钟|天|日|周|星期|礼拜|(?<=个)月|年)(?!前)"),
        ("ago", 0, r"(?P<n>\d{1,4}|[一二三四五六七八九十两]{1,3})个?(?P<unit>小时|分钟|天|日|周|星期|礼拜|(?<=个)月|年)[之以]?前"),
        ("weekday", 0, r"(?<![下每上这本])(?<![下每上这本]个)<weekdays>"),
        ("day_of_week", 2, r"上上个?<weekdays>"),
        ("day_of_week", 1, r"(?<!上)上个?<weekdays>"),
        ("day_of_week", 0, r"[这本]个?<weekdays>"),
        ("month", 0, r"(?:(?P<year>20\d\d)年|(?P<yearword>今年|去年|前年))?的?(?<![个\d第十])<months>份?(?!\d|[一二三四五六七八九十]|[前后]|[之以][前后])"),
        ("month", 0, r"(?<![个\d第十])<months>份?(?=[之以][前后])"),
        ("date", 0, r"(?:(?P<year>20\d\d)年|(?P<yearword>今年|去年|前年))?的?(?<![个\d第十])<months>(?P<day>\d{1,2}|[一二三四五六七八九十]{1,3})[日号]"),
        ("year", 0, r"(?<!\d)(?P<year>20\d\d)年(?!\d|代|[一二三四五六七八九十]{1,2}月)"),
        ("recent", 0, r"最近(?!的?[\d一二三四五六七八九十两几]+个?[小分天日周星礼月年])|近来|近日|近期|这几天|前几天|前两天(?!的)"),
    ),
}  # fmt: skip
_NUMERIC: Final = (
    ("iso", 0, r"(?P<year>(?:19|20)\d\d)-(?P<m>0[1-9]|1[0-2])(?:-(?P<day>0[1-9]|[12]\d|3[01]))?(?!t\d)"),
    ("iso", 0, r"(?P<year>(?:19|20)\d\d)/(?P<m>0?[1-9]|1[0-2])/(?P<day>0?[1-9]|[12]\d|3[01])"),
    ("numbers", 0, r"(?P<d>\d{1,2})(?P<sep>[./])\s?(?P<m>\d{1,2})(?P=sep)\s?(?P<year>20\d\d)"),
)
_YEARS: Final[Mapping[str, tuple[tuple[str, int], ...]]] = {
    "en": (("last year", 1), ("this year", 0), ("the year before last", 2)),
    "de": (("letzten jahres", 1), ("letztes jahr", 1), ("vorigen jahres", 1), ("dieses jahres", 0), ("dieses jahr", 0), ("vorletzten jahres", 2)),
    "es": (("ano pasado", 1), ("este ano", 0)),
    "fr": (("l'annee derniere", 1), ("l'an dernier", 1), ("l'an passe", 1), ("cette annee", 0)),
    "zh": (("今年", 0), ("去年", 1), ("前年", 2)),
}  # fmt: skip
_MORE_DAYS: Final[Mapping[str, Mapping[str, int]]] = {
    "en": {"today": 0},
    "de": {"vorvorgestern": 3},
    "es": {"antier": 2, "antes de ayer": 2, "antayer": 2},
    "fr": {"avant hier": 2, "aujourd hui": 0},
    "zh": {"今日": 0, "昨日": 1, "昨儿": 1, "今儿": 0},
}
_MORE_UNITS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {"quarter": "quarter", "quarters": "quarter", "weekend": "weekend", "weekends": "weekend", "fortnight": "fortnight", "fortnights": "fortnight"},
    "de": {"wochen": "week", "monats": "month", "jahres": "year", "quartal": "quarter", "quartals": "quarter", "wochenende": "weekend", "wochenendes": "weekend"},
    "es": {"trimestre": "quarter", "trimestres": "quarter", "fin de semana": "weekend"},
    "fr": {"an": "year", "trimestre": "quarter", "trimestres": "quarter", "weekend": "weekend", "week-end": "weekend"},
    "zh": {"礼拜": "week", "周末": "weekend", "季度": "quarter", "小时": "hour", "天": "day", "日": "day", "年": "year", "月": "month", "周": "week"},
}  # fmt: skip
_MORE_MONTHS: Final[Mapping[str, Mapping[str, int]]] = {"de": {"maerz": 3}}
# since, after, before, until: words before a time. lead: words that belong to it. never: words that make it no time of the past.
_AROUND: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {
        "since": r"(?:ever )?since|starting|as of", "after": r"after", "before": r"before|prior to|earlier than", "until": r"until|till|up to|up until|by",
        "lead": r"earlier|(?:back )?(?:from|since|in|of|over|during|within|on|for|at|before|after|until|till)(?: the)?|the",
        "never_before": r"(?:next|every|each|coming|following|another|any|per|than|most|half)(?: the| an?)?", "never_after": r"\.com\b",
        "tail": r"(?P<since> onwards?)", "ranges": r"\s*(?:to|and|until|till|through|-|–)\s*(?:the )?", "opens": r"(?:from|between)(?: the)?",
    },
    "de": {
        "since": r"seit(?: dem)?|ab", "after": r"nach(?: dem)?", "before": r"vor(?: dem)?", "until": r"bis(?: zum)?",
        "lead": r"(?:am|im|in|in der|in den|in dem|vom|von|wahrend|uber|seit|vor|nach|bis|ab)(?: dem| der| den)?|(?:der|die|das|den|dem|des)",
        "never_before": r"(?:nachste[nrsm]?|kommende[nrsm]?|jede[nrsm]?|alle|pro|als)", "never_after": r"$^", "tail": r"$^",
        "ranges": r"\s*(?:bis|und|-|–)\s*(?:zum )?", "opens": r"(?:von|vom|zwischen)(?: dem)?",
    },
    "es": {
        "since": r"desde(?: el| la)?|a partir de(?:l)?", "after": r"despues de(?:l| la)?", "before": r"antes de(?:l| la)?", "until": r"hasta(?: el| la)?",
        "lead": r"(?:en|de|del|desde|durante|antes de|antes del|despues de|despues del|hasta)(?: el| la)?|(?:el|la|los|las)",
        "never_before": r"(?:proxim[oa]|cada|todos los|todas las|siguiente|que)(?: el| la)?",
        "never_after": r"\s+(?:que viene|proxim[oa]|siguiente)\b", "tail": r"$^", "ranges": r"\s*(?:a|al|hasta|y|-|–)\s*(?:el )?", "opens": r"(?:de|del|desde|entre)(?: el)?",
    },
    "fr": {
        "since": r"depuis(?: le| la)?|a partir d[eu]", "after": r"apres(?: le| la)?", "before": r"avant(?: le| la)?",
        "until": r"jusqu'(?:a|au|en)(?: le| la)?",
        "lead": r"(?:en|de|du|d'|depuis|durant|pendant|avant|apres|dans)(?: le| la| l')?|(?:le|la|les|au)", "never_before": r"(?:chaque|tous les|toutes les|que)",
        "never_after": r"\s+(?:prochaine?|suivante?|gras|qui vient)\b", "tail": r"$^", "ranges": r"\s*(?:a|au|et|jusqu'au|-|–)\s*(?:le )?", "opens": r"(?:de|du|entre)(?: le)?",
    },
    "zh": {
        "since": r"自从?|从", "after": r"$^", "before": r"$^", "until": r"直?到|截至",
        "lead": r"在|从|自|于", "never_before": r"[下每]个?|[当目以]", "never_after": r"气",
        "tail": r"(?P<since>以来|开始|起|至今|到现在)|(?P<after>[之以]后)|(?P<before>[之以]前)|(?P<until>为止)",
        "ranges": r"(?:到|至|和|-|~)", "opens": r"(?:从|自|在)?",
    },
}  # fmt: skip
_WAYS: Final = ("since", "after", "before", "until")


@cache
def load() -> tuple[TimeLanguage, ...]:
    """Return the words and patterns of all five languages. The first call loads dateparser's data. Thread-safe."""
    return tuple(map(_speech, _FORMS))


def warm() -> None:
    """Load all languages and compile their patterns, so that the first question does not wait for it."""
    for speech in load():
        for pattern in speech.patterns:
            _regex(pattern.source)


def _speech(language: str) -> TimeLanguage:
    info: Mapping[str, Any] = import_module(f"dateparser.data.date_translation_data.{language}").info
    han = language == "zh"

    def named(key: str, least: int) -> list[str]:
        return [one for one in map(flat, info[key]) if han or len(one.rstrip(".")) >= least]

    months = {word: at + 1 for at, key in enumerate(_MONTHS) for word in named(key, 3)} | dict(
        _MORE_MONTHS.get(language, {})
    )
    if han:
        months |= {f"{number:02}月": number for number in range(1, 10)}
    full = [word for word in months if len(word) > 3 or word in {"may", "mai"}]
    weekdays = {word: at for at, key in enumerate(_WEEKDAYS) for word in named(key, 5 if language != "en" else 6)}
    if han:
        weekdays |= {"周天": 6}
    units = {word: key for key in _UNITS for word in named(key, 3)} | dict(_MORE_UNITS[language])
    days = {
        flat(word): ago
        for ago, key in enumerate(("0 day ago", "1 day ago", "2 day ago", "3 day ago"))
        for word in info["relative-type"].get(key, [])
        if " day" not in word and word != "till date"
    } | dict(_MORE_DAYS[language])
    if language == "en":
        days["day before yesterday"] = 2
    numbers = {
        one.partition("=")[0].replace("_", " "): int(one.partition("=")[2]) for one in _NUMBERS[language].split()
    }
    around, parts = _AROUND[language], _PARTS[language]
    years = dict(_YEARS[language])
    groups = {
        "<numbers>": _any(numbers) if numbers else "", "<n>": rf"(?P<n>\d{{1,4}}|{_any(numbers)})" if numbers else "",
        "<units>": f"(?P<unit>{_any(units)})",
        "<months>": f"(?P<month>{_any(months)})", "<month_names>": f"(?P<month>{_any(full)})", "<weekdays>": f"(?P<weekday>{_any(weekdays)})",
        "<days>": f"(?P<word>{_any(days)})", "<parts>": f"(?P<part>{_any(parts)})",
        "<day>": r"(?P<day>0?[1-9]|[12]\d|3[01])", "<year>": r"(?P<year>(?:19|20)\d\d)", "<years>": f"(?P<yearword>{_any(years)})",
    }  # fmt: skip
    needs = {kind: _words(phrases) for kind, phrases in {
        "day": days, "part": parts, "unit": units, "ago": units, "weekday": weekdays, "month": months, "recent": _RECENT[language].split(),
        "night": (*parts, *_NIGHTS[language].split()),
    }.items()}  # fmt: skip
    if language == "de":
        needs["part"] |= {weekday + part for weekday in weekdays for part in parts}
    forms = (*_FORMS[language], *(() if han else _NUMERIC))
    patterns = tuple(
        Pattern(
            kind, _bounded(_filled(form, groups), han=han), shift, None if han or kind in _BY_NUMBER else needs[_NEEDS.get(kind, kind)]
        )
        for kind, shift, form in forms
    )  # fmt: skip
    return TimeLanguage(
        language=language, patterns=patterns, numbers=numbers | {"few": 3, "paar": 3, "pocos": 3, "几": 3}, units=units, months=months,
        weekdays=weekdays, days=days, parts=parts, years=years,
        ways={way: _before(around[way], han=han) for way in _WAYS},
        lead=_before(around["lead"], han=han), never_before=_before(around["never_before"], han=han),
        never_after=re.compile(around["never_after"]), tail=re.compile(around["tail"]),
        ranges=re.compile(around["ranges"].replace(" ", r"\s+")), opens=_before(around["opens"], han=han),
    )  # fmt: skip


_NIGHTS: Final[Mapping[str, str]] = {"en": "tonight", "de": "", "es": "anoche anteanoche antenoche", "fr": "", "zh": ""}
_RECENT: Final[Mapping[str, str]] = {
    "en": "recently lately recent these",
    "de": "kurzlich neulich letztens kurzem letzter letzten",
    "es": "recientemente ultimamente poco estos",
    "fr": "recemment dernierement derniers jours",
    "zh": "",
}
"""Language -> words of the phrases for "recently", of which a text must contain one (`Pattern.needs`)."""
_BY_NUMBER: Final = frozenset({"year", "monthday", "iso", "numbers"})
_NEEDS: Final = {
    "today": "night", "span": "unit", "span1": "unit", "day_of_week": "weekday", "last_month": "month", "months": "month", "date": "month",
}  # fmt: skip


def _words(phrases: Iterable[str]) -> frozenset[str]:
    return frozenset(
        one for phrase in phrases for one in re.findall(r"[^\W_]+", phrase) if one == phrase or len(one) > 3
    )


def _any(words: Iterable[str]) -> str:
    longest_first = sorted(words, key=lambda one: (-len(one), one))
    return f"(?:{'|'.join(re.escape(one) for one in longest_first)})".replace(r"\ ", " ")


def _filled(form: str, groups: Mapping[str, str]) -> str:
    """Return `form` with each placeholder, such as `<days>`, replaced by its pattern in `groups`. If a pattern is
    used twice, the second use gets group names with the suffix 2, because the names must be unique."""
    met: set[str] = set()

    def fill(match: re.Match[str]) -> str:
        pattern = groups[match.group()]
        if pattern in met:
            return re.sub(r"\?P<(\w+?)>", r"?P<\g<1>2>", pattern)
        met.add(pattern)
        return pattern

    return re.sub(r"(?<!\?P)<\w+>", fill, form)


def _bounded(form: str, *, han: bool) -> str:
    """Return a pattern that matches `form` as whole words, not within a file name, an address or a version."""
    form = form.replace(" ?", r"\s*").replace(" ", r"\s+")
    return form if han else rf"(?<![\w/\\@#.-])(?:{form})(?:'s)?(?![\w/\\@-]|\.\w)"


_regex = cache(re.compile)


def _before(form: str, *, han: bool) -> re.Pattern[str]:
    form = form.replace(" ", r"\s+")
    return re.compile(rf"(?:{form})$" if han else rf"(?<![\w-])(?:{form})\s*$")
