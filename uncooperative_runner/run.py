"""The runner's main script: checks the interpreter, then hands over. Run by file path, `python -I -S .../run.py --help`.

It must parse on every Python that a wrapper may find first on its PATH, 2.7 included, to be able to say what is wrong.
"""

import os
import sys

OLDEST = (3, 9)


def main():  # type: () -> int
    """The runner's exit status, where it does not end by a signal."""
    if sys.version_info < OLDEST:
        found = "%d.%d" % sys.version_info[:2]
        sys.stderr.write("uncooperative runner: needs Python %d.%d or later, this is %s (%s)\n" % (OLDEST + (found, sys.executable)))  # noqa: RUF005
        return 2
    # At the end: nothing that lies beside this package may stand in for a module of the standard library.
    # Imported as a package, not run as text, so that the compiled files in __pycache__ are used.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from uncooperative_runner.command import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
