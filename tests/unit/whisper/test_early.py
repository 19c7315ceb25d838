"""Prompts that are silent before anything is embedded (seed: "1. Early exits")."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahd.whisper.hear import MOST_WORDS, _phrases, acknowledges, clean, early
from ormahd.whisper.types import Silence


@pytest.mark.parametrize("prompt", ["", " ", "\n\t\n", "\x00", "\ud800\udfff", "\x1b[0m", "[Image #1]"])
def test_empty(prompt: str) -> None:
    """Seed: "the prompt is empty"."""
    assert early(prompt) is Silence.EMPTY


@pytest.mark.parametrize(
    "prompt", ["!!!", "…", "👍", "👍🏽👍🏽", "ok", "1.", "— 7 —", "好的", "네", "はい", "да", "a?b", "é́", "e\u0301e\u0301", "क़ा", "\u200b"]
)  # fmt: skip
def test_short(prompt: str) -> None:
    """Seed: "the prompt is effectively only punctuation / <= 2 alphanumeric characters"; the same in every script."""
    assert early(prompt) is Silence.SHORT


@pytest.mark.parametrize(
    "prompt",
    [
        "auth", "git", "部署呢", "認証は", "인증은", "что с кэшем?", "πού είναι;", "أين المفتاح", "ไฟล์อยู่ไหน", "गिट", "מה עם המפתח",
        "E0502", "v12",
    ],
)  # fmt: skip
def test_words_of_any_script_are_heard(prompt: str) -> None:
    """Issue: "prompts in any script (Cyrillic, Greek, CJK, Arabic) are words, not empty"."""
    assert early(prompt) is None
    assert clean(prompt) == prompt


def test_commands_and_machines() -> None:
    assert early("/clear") is Silence.COMMAND
    assert early("/x") is Silence.COMMAND
    assert early("<task-notification>done</task-notification>") is Silence.MACHINE
    assert early("/etc/hosts is empty, why?") is None


CHITCHAT = """thanks!|ok go ahead|run the tests again|yes please|looks good to me|great, thank you|hmm, not quite|try again|continue
no, the other one|sounds good|perfect|let's move on|stop|wait a second|undo that|never mind|yes, do that|good morning|hi there|cool
got it|what do you think?|are you sure?|please be brief|show me the diff|commit it|push it|open a pull request|can you explain that?
why?|one more time, slower|keep going until it's green|that worked, nice|no worries|sure, whatever is easiest|ok what's next?
that's wrong|same as before|bye for now"""
"""Prompts that no memory can help with (the benchmark's gate test): all of them are known here, before any model."""
MORE = """yep|YES!!!|Thank you so much!|Thanks a lot, that worked|lgtm, ship it|ok cool thanks|go on|go ahead and commit it|please continue
do the same for the rest|commit and push|rerun all the tests|fix it|fix that please|still not working|it works now!|that didn't work
no no no|wait|hold on a sec|revert that change|undo the last commit|the second option|option B|up to you|your call|both please|why not?
hello Claude|good night, see you tomorrow|sorry, my bad|hmm|haha|next|what?|really?|explain|more details please|be concise|ok, ok, ok"""
FOREIGN = """ja, mach weiter|Danke schön!|noch einmal bitte|lass die Tests nochmal laufen|sieht gut aus|bist du sicher?|Guten Morgen
oui, vas-y|merci beaucoup !|relance les tests|c'est parfait|d'accord|tu es sûr ?|bonjour|sí, continúa por favor|muchas gracias
ejecuta las pruebas otra vez|se ve bien|¿estás seguro?|buenos días|sì, vai avanti|grazie mille|va bene|sei sicuro?|buongiorno
sim, pode continuar|muito obrigado|rode os testes de novo|tem certeza?|bom dia|ja, ga maar door|dank je wel|ziet er goed uit
weet je het zeker?|goedemorgen|да, продолжай|большое спасибо|запусти тесты ещё раз|ты уверен?|доброе утро|выглядит хорошо
好的，继续|谢谢你！|没问题|再试一次|你确定吗？|早上好|提交吧|はい、続けてください|ありがとうございます|もう一度お願いします|了解です
本当ですか？|おはようございます|네, 계속 진행해 주세요|감사합니다|다시 시도해줘|알겠습니다|확실해요?|안녕하세요|نعم، استمر|شكرا جزيلا
حاول مرة أخرى|هل أنت متأكد؟|صباح الخير|ναι, συνέχισε|ευχαριστώ πολύ|δοκίμασε ξανά|είσαι σίγουρος;|καλημέρα|evet, devam et
teşekkür ederim|tekrar dene|emin misin?|günaydın|tak, kontynuuj|dziękuję bardzo|spróbuj jeszcze raz|jesteś pewien?|dzień dobry"""


def listed(text: str) -> list[str]:
    return [one for line in text.splitlines() for one in line.split("|")]


@pytest.mark.parametrize("prompt", [*listed(CHITCHAT), *listed(MORE), *listed(FOREIGN)])
def test_acknowledgement(prompt: str) -> None:
    """Issue: "acknowledgements … stay silent"."""
    assert early(prompt) in {Silence.ACKNOWLEDGEMENT, Silence.SHORT}


def test_chitchat_is_whole() -> None:
    assert len(listed(CHITCHAT)) == 40


@pytest.mark.parametrize(
    "prompt",
    [
        "ok, and what did we decide about auth?",
        "thanks! where is the rate limiter configured?",
        "yes, use Postgres for it",
        "continue with the payments module",
        "run the tests in test_parser.py",
        "commit it with a conventional message",
        "no, the staging server",
        "why Postgres?",
        "where were we?",
        "continue where we left off",
        "what did we do yesterday?",
        "who am I?",
        "what is my name?",
        "what do you know about me?",
        "deploy it",
        "ship the new version",
        "merge the auth branch",
        "show me the retention policy",
        "what about the second migration?",
        "what was done?",
        "what do I do?",
        "ja, und was haben wir zur Anmeldung beschlossen?",
        "merci, et la base de données ?",
        "да, а где настроен кэш?",
        "好的，我们的认证方案是什么？",
        "はい、認証はどう決めましたか",
        "네, 인증은 어떻게 정했죠",
        "نعم، أين مفتاح الخادم؟",
    ],
)
def test_no_acknowledgement(prompt: str) -> None:
    assert early(prompt) is None


def test_a_long_text_of_phrases_is_meant() -> None:
    assert acknowledges("yes " * MOST_WORDS)
    assert not acknowledges("yes " * (MOST_WORDS + 1))
    assert not acknowledges("yes " * 1_000_000)


def test_phrases_are_well_formed() -> None:
    """A bracket too many would make a phrase that never matches."""
    known = _phrases()
    assert "" not in known, "a phrase of optional parts only"
    assert len(known) > 1_000


@given(st.text())
def test_any_prompt(prompt: str) -> None:
    silence = early(prompt)
    assert silence is not None or clean(prompt)
    assert silence in {None, Silence.EMPTY, Silence.SHORT, Silence.COMMAND, Silence.MACHINE, Silence.ACKNOWLEDGEMENT}


@given(st.lists(st.sampled_from(sorted(_phrases())[1:]), min_size=1, max_size=MOST_WORDS + 4).map(" ".join))
def test_any_phrases(prompt: str) -> None:
    assert early(prompt) in {None, Silence.SHORT, Silence.ACKNOWLEDGEMENT, Silence.EMPTY}
