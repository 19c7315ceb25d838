"""The words that the reading and comparing of claims goes by: English, and of other languages what is frequent.

Where a set is compared with tokens it holds stems, as SQLite's porter tokenizer makes them (`core/stems.py`).
"""

from __future__ import annotations

import re


def _set(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


# Reading

SELF = _set("user i me my mine myself he she his her him they their we our us you your")
FILLERS = _set(
    """
    now currently today anymore again still already instead always nowadays presently recently just really actually
    generally usually typically normally also too fine ok okay please must should shall may might can will would could
    nur jetzt immer uhr
    """
)
"""What a claim says without."""
TELLING = _set("after against all before below each few more most off only over same under until up down both own")
"""Function words that do tell something in a claim."""
NEGATIONS = _set("not no never cannot without none nobody nicht kein keine keinen nie niemals")
JOINS = {"and": "&", "or": "|", "to": "-", "und": "&", "oder": "|", "bis": "-"}
_NUMBERS = _set("zero=0 one=1 two=2 three=3 four=4 five=5 six=6 seven=7 eight=8 nine=9 ten=10 eleven=11 twelve=12 fifteen=15"
                " twenty=20 thirty=30 forty=40 fifty=50 sixty=60 ninety=90 hundred=100 half=0.5 zwei=2 drei=3 vier=4 zehn=10")  # fmt: skip
AMOUNTS = {word: float(number) for word, _, number in (pair.partition("=") for pair in _NUMBERS)}
SCALES = {"hundred": 100.0, "thousand": 1e3, "million": 1e6, "billion": 1e9}


def _units() -> dict[str, tuple[str, float]]:
    """Name of a unit to the unit that it is counted in, and how many of those it has."""
    listed = """
        s: ms=0.001 millisecond=0.001 milliseconds=0.001 s=1 sec=1 secs=1 second=1 seconds=1 sekunden=1 min=60 mins=60 minute=60
           minutes=60 minuten=60 h=3600 hour=3600 hours=3600 stunde=3600 stunden=3600 day=86400 days=86400 tage=86400
           week=604800 weeks=604800 wochen=604800 month=2592000 months=2592000 monate=2592000 year=31536000 years=31536000
           jahre=31536000
        B: byte=1 bytes=1 kb=1e3 mb=1e6 gb=1e9 tb=1e12
        %: %=1 percent=1 prozent=1
        EUR: eur=1 euro=1 euros=1 €=1
        USD: usd=1 dollar=1 dollars=1 $=1
        SEK: sek=1 kronor=1
        GBP: gbp=1 pounds=1 £=1
        m: mm=0.001 cm=0.01 m=1 meter=1 meters=1 metres=1 km=1000 kilometer=1000 kilometers=1000 kilometres=1000
        px: px=1 pixel=1 pixels=1
        g: g=1 gram=1 grams=1 kg=1000
    """
    found: dict[str, tuple[str, float]] = {}
    base = ""
    for word in listed.split():
        if word.endswith(":"):
            base = word[:-1]
        else:
            name, _, many = word.rpartition("=")
            found[name] = (base, float(many))
    return found


UNITS = _units()
DAYS = {
    f"{day}{end}": day for day in _set("monday tuesday wednesday thursday friday saturday sunday") for end in ("", "s")
}
_YEAR = "january february march april may june july august september october november december"
MONTHS = {name: f"month {number}" for number, name in enumerate(_YEAR.split(), 1)}
LABELLED = _set(
    """
    camera line run step phase ticket issu error chapter room server machin lane slot stage sprint week day quarter unit lot
    batch roll section part tabl figur episod build gate platform group team page question pr bug case task channel pin axi
    level tier experi fold layer row column core gpu disk shard zone warehous floor apart flat bu tram flight project topic
    partit worker host db type class grade test exam round mileston draft option plan variant soc
    """
)
"""What has a number for a name: camera 3."""
SAME = {
    "postgresql": "postgr", "javascript": "javascript", "js": "javascript", "ts": "typescript", "colour": "color",
    "k8s": "kubernet",
}  # fmt: skip
"""Words to the stem that they are compared as, where that is not their own."""
WRITTEN = {
    "no longer": "not", "half an hour": "30 minutes", "an hour": "1 hour", "a day": "1 day", "a week": "1 week",
    "a month": "1 month", "a year": "1 year", "a minute": "1 minute", "a second": "1 second", "every day": "every 1 day",
    "every week": "every 1 week", "every month": "every 1 month", "every hour": "every 1 hour", "every year": "every 1 year",
    "every night": "every 1 day",
}  # fmt: skip
"""One way of writing for another."""
HISTORY = re.compile(r"\b(?:used to|formerly|previously|until \d{4}|back then|in the past|früher)\b", re.IGNORECASE)
PAST = re.compile(
    r"\b(?:was|were|had|did|took|went|ran|got|made|fell|rose|brought|came|sent|lost|won|met|saw|found|gave|chose|became|"
    r"broke|began|wrote|hatte|war|waren|wurde)\b",
    re.IGNORECASE,
)
PASSIVE = _set("is are be been being am get gets has have must should may can shall will not it's")
"""Before a participle: it tells what is."""
NOT_PAST = _set("need speed feed seed exceed proceed succeed embed indeed hundred shared limited")

# Comparing

_PAIRS = """
    dark light / tab space / singl doubl / public privat / enabl disabl / synchron asynchron / requir option / mandatori option /
    allow forbid / open close / manual automat / includ exclud / like dislik / love hate / like hate / accept reject / on off /
    upper lower / true fals / encrypt unencrypt / mutabl immut / strict loos / rebas merg / permit forbid / allow deni /
    prefer avoid / use avoid / vegetarian vegan / ascend descend / daili weekli / daili monthli / weekli monthli / hourli daili /
    paid free / signed unsign / eager lazi / local remot / first last
"""
OPPOSITES = frozenset(frozenset(pair.split()) for pair in _PAIRS.split("/"))
OPPOSITE_VERBS = _set("allow forbid includ exclud like dislik love hate accept reject permit deni prefer avoid use")
CLASSES = (
    _set("red green blue yellow orang purpl black white grey gray brown pink teal violet"),
    _set("celsiu fahrenheit kelvin"),
    _set(
        "english german french spanish italian swedish japanes dutch portugues russian chines polish danish norwegian finnish"
    ),
)
"""Values of which a thing has one."""
PREFERRING = _set("over befor than instead")
ANCHORS = _set(
    "is are be am on at in by with as for of than from into via through under within during per about ist sind um am im mit"
)
"""Function words before what is said of a subject."""
COPULAS = _set("is are ist sind")
VERBS = _set(
    """
    prefer us like want need run take cost have has expir start end listen requir support keep kept limit store open close
    happen releas fire wait last hold allow answer send show drink eat live work set write indent sign retri poll
    above below between under over until after befor everi within up
    """
)
VALUED = _set(
    "port version size count limit threshold capac width length height factor rate ratio score maximum minimum quota"
)
"""Nouns with a number that is their value, and no label."""
QUALIFIERS = _set(
    """
    stage product prod dev develop test local live demo sandbox io android web window linux maco mac desktop mobil tablet phone
    minimum maximum min max primari secondari replica first second third last old new legaci left right frontend backend client
    server small larg winter summer spring autumn inbound outbound return soft hard cold warm intern extern weekday weekend
    guest admin if when unless except onli while wenn read write connect most least outgo incom default free pro trial
    """
)
"""What makes of one thing two: production and staging, the first and the second, with and without a condition."""
PLATFORMS = _set(
    "io android web window linux maco mac desktop mobil tablet chrome firefox safari edg ubuntu fedora debian arm x86"
)
"""Things run on several of these."""
COUNTRIES = _set(
    """
    ireland germani sweden norwai denmark finland franc spain itali portug poland austria switzerland netherland belgium uk england
    scotland wale usa us america canada mexico brazil argentina japan china india korea australia zealand europ israel turkei
    greec czechia hungari romania ukrain russia estonia latvia lithuania iceland
    """
)
"""A town and a country do not exclude each other."""
ONE_PLACE = re.compile(
    r"\b(?:(?:lives?|living|resides?|based|located|lebt|wohnt) in|works? (?:at|for)|employed (?:at|by)|born in|married to|"
    r"(?:hosted|deployed) (?:on|at|by|in)|published under|licen[sc]ed under|encrypted with|rendered (?:with|by)|stored (?:in|as)|"
    r"reached (?:through|via|by)|runs on|(?:is|are) (?:called|named))\s*[`\"']?(?:the\s)?$",
    re.IGNORECASE,
)
"""The beginning of a claim, up to a name of which there is one."""
THE_IS = re.compile(
    r"(?:the|our|my|his|her|their|the user's|\w+'s)\s(?:[\w-]+\s){1,4}is\s(?:in\s|at\s)?[`\"']?$", re.IGNORECASE
)
AS_THE = re.compile(r"[`\"']?\s+as\s+(?:the|our|its|my|their|default|main)\b", re.IGNORECASE)
"""What follows a name of which there is one."""
IS_THE = re.compile(r"[`\w.+-]+(?:\s[A-Z][\w.+-]*){0,2}\s(?:is (?:our|the|my)|owns|leads)\s", re.UNICODE)
"""A claim that begins with a name of which there is one."""
