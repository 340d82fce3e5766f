"""`python -m kbh_lint` is `kbh-lint`."""

from kbh_lint.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
