"""Command lines as words with braces, signals by name, and maps of outcomes: read and checked, nothing started.

Every refusal is one line that names the value, where it came from and what is allowed there.
"""

from __future__ import annotations

import itertools
import re
import shlex
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_cancelcontract.adapters.protocol import Outcome

_BRACE = re.compile(r"\{\{|\}\}|\{[^{}]*\}|[{}]")
_SCRIPT_OPTION = re.compile(r"-[a-z]*c")
_PAUSE = re.compile(r"[0-9]*\.?[0-9]+")
_SIGNALS = {one.name.removeprefix("SIG"): one for one in signal.Signals}


class BadCommand(ValueError):
    """A command or option is refused; the message names the value, where it came from and what is allowed."""


@dataclass(frozen=True, slots=True)
class Template:
    """A command's words, in which braces are still to be filled."""

    words: tuple[str, ...]
    origin: str
    uses: frozenset[str]

    @classmethod
    def parse(cls, command: str | Sequence[str], *, allowed: Sequence[str], origin: str) -> Template:
        """Split a command and check its braces; a sequence is taken as the words themselves.

        Raises:
            BadCommand: it is empty, a quotation is not closed, or a brace is not one of ``allowed``.
        """
        words = split(command, origin)
        _refuse_split_script(words, origin)
        used: set[str] = set()
        for word in words:
            used.update(name for name in _names(word, origin, allowed) if name)
        return cls(words, origin, frozenset(used))

    def fill(self, values: Mapping[str, str], runner: Sequence[str] = ()) -> list[str]:
        """The words with every brace replaced.

        ``{runner}`` as a word of its own becomes the runner's words; inside a longer word it is quoted for a shell.
        """
        filled: list[str] = []
        for word in self.words:
            if word == "{runner}":
                filled.extend(runner)
            else:
                filled.append(_BRACE.sub(lambda found: _replacement(found.group(), values, runner), word))
        return filled


def split(command: str | Sequence[str], origin: str) -> tuple[str, ...]:
    """A command's words, split as a shell would; a sequence is taken as the words themselves.

    Raises:
        BadCommand: there is no word, or a quotation is not closed.
    """
    if not isinstance(command, str):
        words = tuple(command)
        if not all(isinstance(word, str) for word in words):
            raise BadCommand(f"a command must be text or a sequence of words, got {command!r} from {origin}")
    else:
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise BadCommand(f"cannot split the command {command!r} from {origin} into words: {error}") from None
    if not words or not words[0]:
        raise BadCommand(f"a command must have at least one word, got {command!r} from {origin}")
    if any("\0" in word for word in words):
        raise BadCommand(f"a command cannot hold a null character, got {command!r} from {origin}")
    return words


def _refuse_split_script(words: Sequence[str], origin: str) -> None:
    """``bash -c {runner}``: the shell would take the runner's first word for the script, and the rest for its arguments."""
    for option, word in itertools.pairwise(words):
        if word == "{runner}" and _SCRIPT_OPTION.fullmatch(option):
            raise BadCommand(
                f"{{runner}} behind {option} in the command from {origin} becomes several words, and a shell takes only the first for its"
                f" script; write it inside the script: {option} 'exec {{runner}}'"
            )


def _names(word: str, origin: str, allowed: Sequence[str]) -> Iterator[str]:
    known = ", ".join(f"{{{name}}}" for name in allowed) or "none"
    for found in _BRACE.findall(word):
        if found in {"{{", "}}"}:
            continue
        if found in {"{", "}"}:
            raise BadCommand(f"single brace in {word!r} from {origin}; braces known there: {known} (a literal brace is {{{{ or }}}})")
        if found[1:-1] not in allowed:
            raise BadCommand(
                f"unknown brace {found} in {word!r} from {origin}; braces known there: {known} (a literal brace is {{{{ or }}}})"
            )
        yield found[1:-1]


def _replacement(found: str, values: Mapping[str, str], runner: Sequence[str]) -> str:
    if found in {"{{", "}}"}:
        return found[0]
    return shlex.join(runner) if found == "{runner}" else values[found[1:-1]]


def read_signal(word: str, origin: str) -> signal.Signals | None:
    """The signal that a word names (``TERM``, ``SIGTERM``, ``15``), or None where it is a command.

    Raises:
        BadCommand: it looks like a signal and is none, or could be meant either way.
    """
    wrong = f"no such signal: {word!r} from {origin}; allowed are a signal's name (TERM, SIGINT …), its number, or a command"
    if word.lstrip("-").isdigit():
        try:
            return signal.Signals(int(word))
        except ValueError:
            raise BadCommand(wrong) from None
    bare = word.upper().removeprefix("SIG")
    if word.upper().startswith("SIG") and word.isalnum():
        if bare not in _SIGNALS:
            raise BadCommand(wrong)
        return _SIGNALS[bare]
    if word == bare and re.fullmatch(r"[A-Z][A-Z0-9]+", word):
        if bare not in _SIGNALS:
            raise BadCommand(wrong)
        return _SIGNALS[bare]
    if bare in _SIGNALS:
        raise BadCommand(f"{word!r} from {origin} could be a signal or a program; write SIG{bare}, or the program with its path")
    return None


def signal_named(word: str) -> signal.Signals | None:
    """The signal of that name, in capitals or not, with SIG in front or without; None where there is none."""
    return _SIGNALS.get(word.upper().removeprefix("SIG"))


def refuse_bare_ladder(words: Sequence[str], origin: str) -> None:
    """Refuse ``INT 2 TERM``: a ladder, but for its first letter.

    Raises:
        BadCommand: all words are signals and numbers.
    """
    if len(words) > 1 and all(word.upper().removeprefix("SIG") in _SIGNALS or _PAUSE.fullmatch(word) for word in words):
        raise BadCommand(f"a ladder begins with @, got {' '.join(words)!r} from {origin}: write @'{' '.join(words)}'")


def read_outcome_map(given: Mapping[str, str] | str | None, origin: str) -> dict[str, Outcome]:
    """Read ``"REVOKED=cancelled,DONE=succeeded"``, or the same as a mapping.

    Raises:
        BadCommand: a pair has no ``=``, or an outcome is none.
    """
    if given is None:
        return {}
    pairs: list[tuple[str, str]] = []
    if isinstance(given, str):
        for pair in filter(None, (part.strip() for part in given.split(","))):
            word, equals, outcome = pair.rpartition("=")
            if not equals or not word:
                raise BadCommand(f"an outcome map must be WORD=OUTCOME,…, got {pair!r} from {origin}")
            pairs.append((word.strip(), outcome.strip()))
    else:
        pairs = [(str(word), outcome) for word, outcome in given.items()]
    read: dict[str, Outcome] = {}
    for word, outcome in pairs:
        try:
            read[word] = Outcome(outcome)
        except ValueError:
            raise BadCommand(f"an outcome must be one of {', '.join(Outcome)}, got {outcome!r} for {word!r} from {origin}") from None
    return read
