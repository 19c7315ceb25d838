"""Finds the phrase of a rule in a sentence, and turns the sentence into a memory that can be understood alone. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import Final

from msgspec import Struct

from ormahd.ingest.rules.dates import absolute
from ormahd.ingest.rules.phrases import LANGUAGES, RuleLanguage, RulePhrase, SentenceRule, load
from ormahd.ingest.rules.prose import SaidSentence, plain_form
from ormahd.ingest.rules.voice import about_user, quoted, reported, says_i, third, told
from ormahd.model.node import NodeType

TITLE: Final = 70
"""Maximum number of characters of a title."""
SHORT: Final = 3
"""If a phrase is followed by at most so many words, and the last is a pronoun, the pronoun means something said
before: "we decided to drop it". The sentence is then no memory."""
LEAST: Final = 2
"""Minimum number of letters after the phrase by which a memory is found."""
CLAUSES: Final = 4
"""Maximum number of breaks in a sentence, such as commas and conjunctions, after which a further clause is read."""
BEHIND: Final = SentenceRule("behind", ())
ENDING: Final = SentenceRule("ending", (), type=NodeType.PREFERENCE, lasting=True)
VERBS: Final = frozenset({"habit", "ich", "yo", "je"})
"""The lists of a language's file that have verbs in the first person."""
_WORD: Final = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_QUOTES: Final = re.compile('["“”„«»]')
_PLACE: Final = re.compile(r"<(\w+)>")


class FoundMemory(Struct, frozen=True):
    """A memory that a sentence states. `corrects`: words of the earlier statement that it makes wrong; "" if there is
    none."""

    type: NodeType
    title: str
    content: str
    about_self: bool
    corrects: str


class _Told(Struct, frozen=True):
    """A memory found in a clause by a phrase of a rule, before its dates are made absolute and its title is
    written."""

    type: NodeType
    content: str
    about_self: bool


def found(sentence: SaidSentence, before: str, day: date) -> list[FoundMemory]:
    """Return the memories that a sentence states: none, one, or rarely two. `day`: the day on which the sentence was
    said.

    `before`: the previous sentence, to which "Remember that." refers.
    """
    for language in LANGUAGES:
        memories = list(_reader(sentence, language, day).read(sentence.text, sentence.plain, before))
        if memories:
            return memories
    return []


def listed(sentence: SaidSentence) -> str:
    """Return the language of a sentence that announces a list of things to be remembered; "" if the sentence does
    not."""
    for language in LANGUAGES:
        speech = load(language)
        guarded = any(speech.guards[name].search(sentence.plain) for name in ("before", "anywhere"))
        if speech.listing.match(sentence.plain) and not guarded:
            return language
    return ""


def item(sentence: SaidSentence, language: str, day: date) -> list[FoundMemory]:
    """Return [the memory that an item states], or [] if it states none. The item belongs to a list that a sentence
    has announced; `language`: what `listed` returned for that sentence."""
    memory = _reader(sentence, language, day).item(sentence.text)
    return [] if memory is None else [memory]


def _reader(sentence: SaidSentence, language: str, day: date) -> _Reader:
    speech = load(language)
    words = {"", *_WORD.findall(sentence.plain)}
    phrases = {phrase.order: phrase for word in words for phrase in speech.phrases.get(word, ())}
    return _Reader(speech, [phrases[order] for order in sorted(phrases)], day)


class _Reader(Struct, frozen=True):
    """Finds memories in one sentence of one language. `phrases`: the phrases that have a word in common with the
    sentence, in the order of the language's file; `day`: the day on which the sentence was said."""

    speech: RuleLanguage
    phrases: Sequence[RulePhrase]
    day: date

    def read(self, text: str, plain: str, before: str) -> Iterator[FoundMemory]:
        """Yield the memories that a sentence states. `plain`: the sentence's `plain_form`; `before`: the previous
        sentence."""
        guards = self.speech.guards
        for pattern, rule in ((self.speech.behind, BEHIND), (self.speech.ending, ENDING)):
            end = pattern.search(plain)
            if end is not None and not guards["anywhere"].search(plain):
                memory = self._stated(text[: end.start()] or before, rule)
                if memory is not None:
                    yield memory
                return
        read = 0
        for start in self._clauses(plain) if self.phrases else ():
            if start < read:
                continue
            if guards["before"].search(plain[read:start]) or len(_QUOTES.findall(text[:start])) % 2:
                return
            matches = list(self._matched(text, plain, start))
            if not matches and guards["opening"].match(plain[start:]):
                return
            for phrase, match, stop in matches:
                refused = guards["anywhere"].search(plain[:stop])
                memory = None if refused else self._memory(text[start:stop], match, phrase)
                if memory is not None:
                    yield memory
                    read = stop
                    break
                if not phrase.rule.denies:
                    return

    def item(self, text: str) -> FoundMemory | None:
        """Return the memory that `text`, an item of a list that the person asked to remember, states; None if it
        states none."""
        memory = next(self.read(text, plain_form(text), ""), None)
        return memory or self._stated(text, BEHIND)

    def _matched(self, text: str, plain: str, start: int) -> Iterator[tuple[RulePhrase, re.Match[str], int]]:
        """Yield (phrase, match, end) for each phrase that stands at the beginning of the clause at offset `start`.
        `end`: the offset in the sentence at which the text that belongs to the phrase ends."""
        opened = self.speech.guards["opening"].match(plain[start:]) is not None
        for phrase in self.phrases:
            match = phrase.pattern.match(f" {plain[start:]}")
            if match is None or not _capitals(match, text[start:]):
                continue
            end = start + match.end() - 1
            stops = [self.speech.cut.search(plain, max(start, end - 1))]
            if self._own(phrase):
                stops.append(self.speech.request.search(plain, end))
                if "<" in (phrase.instead or "") and plain[end : end + 1] in {",", ";"}:
                    stops.append(re.compile("[,;]").match(plain, end))  # "I'm vegetarian, my husband is not"
            stop = min([one.start() for one in stops if one is not None], default=len(plain))
            if (phrase.rule.opens or not opened) and (phrase.rule.asked or not _asks(plain[:stop])):
                yield phrase, match, stop

    def _clauses(self, plain: str) -> Iterator[int]:
        """Yield the offsets at which the clauses of a sentence begin, after leading words such as "ok" or "also"."""
        yield 0
        lead = self.speech.lead.match(plain)
        start = lead.end() if lead else 0
        if start:
            yield start
        for count, join in enumerate(self.speech.joins.finditer(plain, start)):
            if count == CLAUSES:
                break
            lead = self.speech.lead.match(plain, join.end())
            yield lead.end() if lead else len(plain) - len(plain[join.end() :].lstrip())

    def _memory(self, clause: str, match: re.Match[str], phrase: RulePhrase) -> FoundMemory | None:
        rule = phrase.rule
        rest = self._bare(clause[match.end() - 1 :], whole=not rule.wraps)
        if rule.wraps:
            last = _WORD.findall(match[0])[-1]
            if self.speech.voice.that and self.speech.conjunction.fullmatch(last):
                return self._reported(rest, clause)
            return self._stated(rest, rule)
        own = self._own(phrase)
        if own:
            lead = self.speech.lead.match(plain_form(rest))
            rest = rest[lead.end() if lead else 0 :]
        if self._unfit(rest, phrase, match):
            return None
        if (
            own
            and rule.type in {NodeType.DECISION, NodeType.GOAL}
            and self.speech.guards["today"].search(plain_form(rest))
        ):
            return None
        return self._finished(self._said(clause, rest, match, phrase), corrects="", lasting=rule.lasting)

    def _own(self, phrase: RulePhrase) -> bool:
        """Return whether the memories that are found by a phrase are about the user."""
        instead = phrase.instead or ""
        return instead.startswith(self.speech.voice.user) or self.speech.voice.of in instead

    def _unfit(self, rest: str, phrase: RulePhrase, match: re.Match[str]) -> bool:
        """Return whether `rest`, the text after a phrase, cannot be understood alone or is too short for a memory."""
        plain = plain_form(rest)
        words = _WORD.findall(plain)
        between = match.groupdict().get("between") or ""
        for first in (_WORD.findall(between)[:2], words[:2]):
            if first and (first[0] in phrase.unless or " ".join(first) in phrase.unless):
                return True
        if self._points(f"{between} {plain}"):
            return True
        if len(words) <= SHORT and words[-1:] and self.speech.guards["pointing"].fullmatch(words[-1]):
            return True
        if phrase.instead == "=":
            if not words and len(between.strip()) <= 2 * LEAST and phrase.rule.type is NodeType.DECISION:
                return True
            return phrase.rule.type is NodeType.DECISION and self.speech.guards["pointing"].match(plain) is not None
        if not words and "<" in (phrase.instead or ""):
            return phrase.rule.type is NodeType.PREFERENCE and not between
        if len("".join(words) + between) < LEAST:
            return True
        return self.speech.guards["pointing"].match(between.strip() or plain) is not None

    def _points(self, plain: str) -> bool:
        """Return whether a text refers to something that was said or shown before."""
        return self.speech.guards["points"].search(plain) is not None or self.speech.this.search(plain) is not None

    def _stated(self, text: str, rule: SentenceRule) -> FoundMemory | None:
        """Return the memory made from a whole statement; None if the statement is unfit. `rule`: the rule of the
        words around the statement, such as "remember that", which ask to remember it or mark it as a correction."""
        lead = self.speech.lead.match(plain_form(text))
        rest = self._bare(text[lead.end() if lead else 0 :])
        plain = plain_form(rest)
        if not self._stands(rest) or (rule.careful and self.speech.guards["passing"].search(plain)):
            return None
        if rule.lasting and (self.speech.unsure.search(plain) or says_i(plain, self.speech.voice)):
            return None
        if rule is ENDING and not self.speech.imperatives.match(plain):
            return None
        wrong = ""
        if rule.corrects:
            if self.speech.guards["work"].search(plain):
                return None
            being, denied = self.speech.being.search(plain), self.speech.denial.search(plain)
            if (
                being is None
                or being.start() == 0
                or (rule.denies and (denied is None or denied.start() < being.end()))
            ):
                return None
            wrong = f"{rest[: being.start()]}{rest[denied.end() :] if denied else ''}".strip(" .,")
        what = self._inner(rest)
        if what is None and rule.careful and says_i(plain, self.speech.voice):
            return None  # "just so you know, I already tried"
        if what is None:
            user = about_user(rest, self.speech.voice)
            plainly = user or told(rest, self.speech.voice, subject=False)
            what = _Told(rule.type, plainly or quoted(rest, self.speech.voice), user is not None)
        return self._finished(what, corrects=wrong, lasting=rule.lasting)

    def _reported(self, rest: str, clause: str) -> FoundMemory | None:
        """Return the memory made from a subordinate clause with its verb at the end, such as "dass der Port 8443
        ist"; None if it is unfit. `rest`: the text after the conjunction."""
        if not self._stands(rest):
            return None
        voice = self.speech.voice
        content = reported(rest, voice) or quoted(self._bare(clause), voice)
        return self._finished(
            _Told(
                NodeType.FACT,
                content,
                about_self=content.startswith(f"{voice.user} ")
                and not content.startswith(voice.that.partition("{}")[0]),
            ),
            corrects="",
        )

    def _stands(self, text: str) -> bool:
        """Return whether a statement can be understood without the sentences around it."""
        plain = plain_form(text)
        guards = self.speech.guards
        words = _WORD.findall(plain)
        return (
            len(words) > 1
            and len("".join(words)) >= 2 * LEAST
            and not guards["pointing"].match(plain)
            and not self._points(plain)
            and not guards["opening"].match(plain)
            and (guards["general"].match(plain) is None or any(c.isdigit() for c in plain))
        )

    def _inner(self, rest: str) -> _Told | None:
        """Return the memory that a phrase finds in `rest`, the statement that follows the phrase of another rule;
        None if no phrase finds one."""
        plain = plain_form(rest)
        for phrase in self.phrases:
            match = None if phrase.rule.wraps else phrase.pattern.match(f" {plain}")
            if match is None or not _capitals(match, rest):
                continue
            behind = self._bare(rest[match.end() - 1 :], whole=True)
            if not self._unfit(behind, phrase, match):
                return self._said(rest, behind, match, phrase)
        return None

    def _said(self, clause: str, rest: str, match: re.Match[str], phrase: RulePhrase) -> _Told:
        """Return the memory found in a clause by a phrase. `rest`: the text after the phrase."""
        voice = self.speech.voice
        instead = phrase.instead or ""
        own = self._own(phrase)
        if instead == "=":
            content = told(self._bare(clause), voice, subject=False)
        else:
            start = _filled(instead, match, clause, lambda verb: third(verb, voice) if own else verb)
            content = told(f"{start} {rest}".strip(), voice, subject=own)
        return _Told(phrase.rule.type, content or quoted(self._bare(clause), voice), own)

    def _finished(self, what: _Told, *, corrects: str, lasting: bool = False) -> FoundMemory:
        recurring = what.type is NodeType.PREFERENCE
        content = absolute(_sentence(what.content), self.speech.dates, self.day, recurring=recurring)
        title = self._title(content)
        if lasting:
            content = f"{content.removesuffix('.')} {self.speech.since.format(self.day.isoformat())}."
        return FoundMemory(what.type, title, content, what.about_self, corrects)

    def _bare(self, rest: str, *, whole: bool = False) -> str:
        """Return `rest`, the text after a phrase, without courtesies such as "please" and the full stop at its end. A
        conjunction at its beginning is removed too, unless `whole`."""
        conjunction = None if whole else self.speech.conjunction.match(plain_form(rest))
        rest = rest[conjunction.end() if conjunction else 0 :].lstrip(" ,:–—-")
        tail = self.speech.tail.search(plain_form(rest))
        return (rest[: tail.start()] if tail else rest).rstrip(" .!?…,;:–—-")

    def _title(self, content: str) -> str:
        """Return a title for a memory: its content without "The user" at the beginning, without reasons and brackets,
        and cut to `TITLE` characters."""
        voice = self.speech.voice
        said = voice.said.partition("{}")[0]
        title = content
        for start in (said, voice.that.partition("{}")[0], f"{voice.user} "):
            title = title.removeprefix(start)
        title = title.rstrip('."”“» ')
        reason = self.speech.reason.search(plain_form(title))
        for end in (title.find(" ("), reason.start() if reason else -1):
            if end > TITLE // 4:
                title = title[:end]
        title = title.rstrip(" ,;:")
        if len(title) > TITLE:
            title = title[: title.rfind(" ", 0, TITLE)].rstrip(" ,;:") + "…"
        return title[:1].upper() + title[1:]


def _filled(instead: str, match: re.Match[str], clause: str, third_person: Callable[[str], str]) -> str:
    """Return the text that stands in a memory in place of a phrase: `instead`, with each `<name>` replaced by the
    word in `clause` that matched the list of that name (or the choice of that number). Verbs in the first person are
    passed through `third_person`."""

    def word(place: re.Match[str]) -> str:
        name = f"c{place[1]}" if place[1].isdigit() else place[1]
        said = f" {clause}"[slice(*match.span(name))].strip() if match[name] else ""
        return third_person(said) if place[1] in VERBS else said

    return " ".join(_PLACE.sub(word, instead).split())


def _asks(plain: str) -> bool:
    """Return whether a sentence is a question."""
    return plain.rstrip(" \"')").endswith("?") or plain.startswith("¿")


def _capitals(match: re.Match[str], clause: str) -> bool:
    """Return whether every word in the clause that matched `<cap>` in a phrase begins with a capital, as names do."""
    places = [name for name in match.groupdict() if name.startswith("cap")]
    return all(f" {clause}"[match.start(name) :][:1].isupper() for name in places)


def _sentence(text: str) -> str:
    """Return a text with a capital at its beginning and a full stop at its end."""
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "!", "”", '."', "»", "“")) else ".")
