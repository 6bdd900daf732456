"""What the bundled runner's requests are answered with; the model that it names says which habit spends."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_cancelcontract.answers import Answer, Asked, Background, Failure, Stream, Text

ENDLESS = 1_000_000
PER_S = 20.0
ANSWERS: Mapping[str, Answer] = {
    "uncooperative/call": Text("Four words are enough."),
    "uncooperative/stream": Stream(ENDLESS, PER_S),
    "uncooperative/held": Stream(ENDLESS, PER_S),
    "uncooperative/background": Background(ENDLESS, PER_S),
}


def choose(asked: Asked) -> Answer:
    """By the model; another one is refused."""
    return ANSWERS.get(asked.model) or Failure(404, None, "The bundled runner has no such model.")
