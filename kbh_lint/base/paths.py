"""Where the rules and the problems are: in the installed package, or beside it in a source checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def _data(name: str) -> Path:
    checkout = _PACKAGE.parent
    # Only a checkout has pyproject.toml beside the package; site-packages may hold anybody's `rules` folder.
    if (checkout / "pyproject.toml").is_file() and (checkout / name).is_dir():
        return checkout / name
    return _PACKAGE / "_data" / name


def rules_dir(override: str | Path | None = None) -> Path:
    """The folder of rule files, one YAML a rule; `override` (from --rules-dir) wins. It may not exist."""
    return Path(override) if override is not None else _data("rules")


def problems_dir(override: str | Path | None = None) -> Path:
    """The folder of problems, one folder each; `override` (from --problems-dir) wins. It may not exist."""
    return Path(override) if override is not None else _data("problems")


def hardware_file(problems: str | Path) -> Path:
    """The hardware.yaml of a folder of problems: its own, or the project's where it has none. It may not exist."""
    own = Path(problems) / "hardware.yaml"
    return own if own.is_file() else problems_dir() / "hardware.yaml"
