"""How the documentation is built: ``make docs``, or ``python -m sphinx -W --keep-going -n docs docs/_build``.

Sphinx, since it is kept up, checks every link (those to files beside the documentation as well), and shows files in place of copies of
them; MyST lets the pages be Markdown, which reads well without being built; Furo has a light and a dark face and asks nobody for anything.
"""

from __future__ import annotations

import re
from typing import Any

project = "pytest-cancelcontract"
extensions = ["myst_parser"]
exclude_patterns = ["_build"]
nitpicky = True
# Most blocks are command lines and what they print; the others say what they are.
highlight_language = "text"
# A command line shows its dashes and quotes as they are typed.
smartquotes = False
show_warning_types = True

# Links to a heading are written as on a code host, and checked.
myst_heading_anchors = 3
# A picture's class says for which theme it is.
myst_enable_extensions = ["attrs_inline"]

html_theme = "furo"
html_title = project
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False


def _without_signposts(_app: Any, _page: str, source: list[str]) -> None:
    """Where another page is shown in place, who reads the file itself needs a link to it; here it would lead to what stands below it."""
    source[0] = re.sub(r"^From \[[^\]]*\]\([^)]*\.md\):\n\n(?=```\{include\})", "", source[0], flags=re.MULTILINE)


def setup(app: Any) -> None:
    """Sphinx calls this by its name."""
    app.connect("source-read", _without_signposts)
