"""What the reports of other plugins take in of a drill: its page, its words and its history. Data in, text out; a history is only read."""

from __future__ import annotations

import html
import os
from pathlib import Path
from urllib.parse import quote

from pytest_cancelcontract.report import html_report
from pytest_cancelcontract.report.text import Row, plain


def name_of(row: Row) -> str:
    """What its attachments are called: ``"cancel drill deaf-child"``."""
    return plain(f"cancel drill {row['scenario']}")


def page_of(row: Row) -> str:
    """The page of this one drill, words and picture; ``""`` where Jinja2 is missing."""
    if html_report.why_not_here():
        return ""
    return html_report.page([row], terms=row.get("terms") or {}).encode("utf-8", "backslashreplace").decode()


def embedded(row: Row, words: str) -> str:
    """The drill's page as a part of another one: a frame that may run nothing, so that neither page's style reaches the other.

    Args:
        words: are shown instead where there is no page.
    """
    page = page_of(row)
    if not page:
        return f"<pre>{html.escape(plain(words))}</pre>"
    style = "width: 100%; height: 42em; border: 1px solid #8888; resize: vertical"
    return f'<iframe sandbox title="{html.escape(name_of(row))}" style="{style}" srcdoc="{html.escape(page)}"></iframe>'


def link_to_history(row: Row, folder: Path) -> tuple[str, str] | None:
    """Name and address of a drill's history, as seen from a folder; both may stand in HTML as they are. None where it has none."""
    history = row.get("history")
    if not history:
        return None
    # A path need not be UTF-8, and an address is bytes anyway.
    address = os.fsencode(os.path.relpath(str(history), folder))
    return html.escape(plain(f"history of {row['scenario']}")), html.escape(quote(address))
