"""Text from elsewhere, a process's name or its output, with what could move a terminal's cursor written out."""

from __future__ import annotations


def escaped(text: str, keep: str = "") -> str:
    """The text with every letter that is not printable written as in a Python literal, but for those to keep."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in keep else letter.encode("unicode_escape").decode("ascii") for letter in text)
