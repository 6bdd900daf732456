"""What an answer's tokens are: the words of a given text, or made-up ones by number, which need no memory."""

from __future__ import annotations

import re
from typing import Protocol

_MADE_UP = tuple(f"{word} " for word in ("slow", "words", "of", "no", "meaning", "come", "one", "by", "one", "until", "all", "is", "said,"))
TEXT_AT_MOST = 20_000
"""Made-up words that are written out in one piece: more of them would hold up every other answer for as long."""
_NUMBER_EVERY = 4
"""So often a word's number stands in its place: an agent that sees the same words again and again takes it for a loop, and stops."""


class Pieces(Protocol):
    """Tokens in order; together they are the text."""

    def __len__(self) -> int:
        """How many there are."""

    def __getitem__(self, index: int, /) -> str:
        """The token of this number, from 0."""

    def text(self) -> str:
        """All of them."""


class Words:
    """The words of a text, each with the white space behind it."""

    __slots__ = ("_text", "_words")

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = re.findall(r"\s*\S+\s*|\s+", text)

    def __len__(self) -> int:
        return len(self._words)

    def __getitem__(self, index: int, /) -> str:
        word: str = self._words[index]
        return word

    def text(self) -> str:
        """The text."""
        return self._text


class MadeUp:
    """So many made-up words."""

    __slots__ = ("_count",)

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int, /) -> str:
        return f"{index} " if index % _NUMBER_EVERY == _NUMBER_EVERY - 1 else _MADE_UP[index % len(_MADE_UP)]

    def text(self) -> str:
        """All of them, or the first :data:`TEXT_AT_MOST`."""
        return "".join(self[index] for index in range(min(self._count, TEXT_AT_MOST)))
