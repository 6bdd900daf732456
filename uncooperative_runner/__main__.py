"""`python -m uncooperative_runner`: the same as run.py, for use by hand."""

import sys

from uncooperative_runner.run import main

if __name__ == "__main__":
    sys.exit(main())
