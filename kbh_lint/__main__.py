"""`python -m kbh_lint` is `kbh-lint`."""

import sys

if __name__ == "__main__":
    # -m puts the current folder first, and the files that lie there are what is linted: none of them may be imported.
    if not sys.flags.safe_path:
        del sys.path[0]
    from kbh_lint.cli import main

    raise SystemExit(main())
