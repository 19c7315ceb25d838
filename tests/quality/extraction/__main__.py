"""Print what the rules find in the labelled sessions: `python -m tests.quality.extraction dev|held [--misses] [--found]`."""

from __future__ import annotations

import argparse

from tests.quality import extraction


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.quality.extraction", description=extraction.__doc__)
    parser.add_argument("half", nargs="?", default="dev", choices=extraction.HALVES)
    parser.add_argument("--misses", action="store_true", help="print what is wrong and what was not found")
    parser.add_argument("--found", action="store_true", help="print what was found")
    asked = parser.parse_args()
    for language in (*extraction.LANGUAGES, ""):
        sessions = [one for one in extraction.sessions() if one.half == asked.half and one.name.startswith(language)]
        score = extraction.score(sessions)
        print(f"{language or 'all'}: {score} · {extraction.counts(sessions)}")
        for verdict in score.verdicts if language else ():
            if (asked.misses and verdict.worth is None) or asked.found:
                said = verdict.candidate
                print(
                    f"  {'right' if verdict.worth else 'WRONG'} {verdict.session.name} [{said.type}] {said.title} | {said.content}"
                )
        for worth in score.missed if language and asked.misses else ():
            print(f"  missed {worth.turn} [{worth.type}] {worth.text}")


main()
