"""Takes secrets out of logs and messages before they are written anywhere.

What goes: values of the judge's environment variables whose names speak of a secret, tokens of known forms, passwords
in URLs, headers and assignments, private keys, and the paths of home and scratch folders. Give it whole text: a token
that was cut before cannot be told from a word. The time is linear in the text whatever it holds.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

__all__ = ["LIMIT", "MARK", "redact"]

MARK = "<redacted>"
SEEN = "/kbh-scratch"  # as in grader.sandbox: a submission sees its scratch folder there
SCRATCH = "<scratch>"
LIMIT = 1 << 20  # characters of a result; the middle of longer text is left out
LEAST = 6  # characters of a variable's value: a shorter one is too likely a word
LEAST_LINE = 16  # the same for one line of a value of several
ROUNDS = 4  # one does nearly always; the others make sure that redacting again changes nothing

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTH(?!ORS?(_|$))|COOKIE", re.IGNORECASE)

# A token begins where no word goes on, or after an escape: "\n", "%20", a terminal's colour. It takes along what is
# joined to it. The bounds inside keep text that is nearly a token from being scanned to its end again and again.
_TOKEN = re.compile(
    r"""(?:(?<![A-Za-z0-9])|(?<=\\[abfnrtv])|(?<=%[0-9A-Fa-f]{2})|(?<=[\[;][0-9]m)|(?<=[\[;][0-9]{2}m))
    (?: (?:sk|glpat|nvapi|pypi|xai)-(?=[\w-]{0,60}[0-9A-Z])[\w-]{16}
      | (?:dop_v1|gh[oprsu]|github_pat|gsk|hf|npm|r8|shpat|(?:pk|rk|sk)_(?:live|test))_[A-Za-z0-9]{16}
      | xox[a-z]-(?=[\w-]{0,60}[0-9])[\w-]{10}
      | ya29\.[\w-]{16}
      | (?:AKIA|ASIA)[A-Z0-9]{16}
      | AIza[\w-]{35}
      | eyJ[\w-]{8,500}+\.[\w-]{8}
    )(?:\.?[\w-])*+""",
    re.ASCII | re.VERBOSE,
)
_BEARER = re.compile(r"\b(bearer[ \t]{1,8})(?=[\w.~+/=-]*[0-9])[\w.~+/=-]{16,}+", re.ASCII | re.IGNORECASE)
_HEADER = re.compile(
    r"((?:authorization|x-api-key|cookie)\\?[\"']?[ \t]{0,4}:)[ \t]*+(?=[^ \t\r\n])[^\r\n]*+", re.IGNORECASE
)
_ASSIGNED = re.compile(
    r"((?:password|passwd|passphrase|(?:api|access|secret|private)[_-]?key|client[_-]?secret"
    r"|(?:access|api|auth|refresh)[_-]?token)"
    r"\\?[\"']?[ \t]{0,4}[=:][ \t]{0,4}\\?[\"']?)[^\s\"'<>,;&\\]{6,}+",
    re.IGNORECASE,
)
_URL = re.compile(rf"(?<=://)(?!{MARK}@)(?:[^\s/@:]*+:[^\s/]*@|[^\s/@:]{{16,}}+@)")
_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_KEY_REST = re.compile(r"[\w+/=\s\\:,-]*+", re.ASCII)


def redact(text: str, *, scratch: Iterable[Path] = (), environ: Mapping[str, str] | None = None) -> str:
    """The text without secrets, at most LIMIT characters and a note; redacting it again changes nothing.

    `scratch` are folders besides this program's own temporary ones; `environ` is the environment unless given.
    """
    variables = os.environ if environ is None else environ
    values, folders = _known(variables), _folders(variables, scratch)
    clean = _settled(text.encode("utf-8", "replace").decode(), values, folders)
    if len(clean) <= LIMIT:
        return clean
    half = (LIMIT - 100) // 2
    note = f"\n... {len(clean) - 2 * half:,} characters are left out ...\n"
    return _settled(clean[:half] + note + clean[-half:], values, folders)


def _settled(text: str, values: re.Pattern[str] | None, folders: list[tuple[re.Pattern[str], str]]) -> str:
    for _ in range(ROUNDS):
        before = text
        if values is not None:
            text = values.sub(lambda found: found[0] if found[0] in (MARK, SCRATCH) else MARK, text)
        text = _TOKEN.sub(MARK, _without_keys(text))
        text = _URL.sub(MARK + "@", text)
        text = _HEADER.sub(rf"\1 {MARK}", text)
        for assigned in (_BEARER, _ASSIGNED):
            text = assigned.sub(rf"\1{MARK}", text)
        for path, name in folders:
            text = path.sub(name, text)
        if text == before:
            break
    return text


def _without_keys(text: str) -> str:
    """The text without private keys in PEM. One whose end is missing goes as far as it may be one."""
    parts, done = [], 0
    while begin := _KEY_BEGIN.search(text, done):
        parts.append(text[done : begin.start()])
        end = _KEY_END.search(text, begin.end())
        if end is None:
            rest = _KEY_REST.match(text, begin.end())
            parts.append(MARK)
            done = rest.end() if rest else begin.end()
            break
        parts.append(MARK)
        done = end.end()
    return "".join(parts) + text[done:] if parts else text


def _known(environ: Mapping[str, str]) -> re.Pattern[str] | None:
    """The values of variables that hold secrets, as they are and as they look in a URL or in JSON."""
    forms: set[str] = set()
    for name, value in environ.items():
        count = "TOKENS" in name.upper() and value.isdigit()  # a limit, not a secret
        if _SECRET_NAME.search(name) is None or count:
            continue
        lines = value.splitlines()
        plain = [value, value.strip(), *(line for line in lines if len(lines) > 1 and len(line) >= LEAST_LINE)]
        forms.update(form for text in plain for form in (text, quote(text, safe=""), json.dumps(text)[1:-1]))
    longest_first = sorted((form for form in forms if len(form.strip()) >= LEAST), key=lambda form: (-len(form), form))
    if not longest_first:
        return None
    return re.compile("|".join(map(re.escape, [MARK, SCRATCH, *longest_first])))


def _folders(environ: Mapping[str, str], scratch: Iterable[Path]) -> list[tuple[re.Pattern[str], str]]:
    """Expressions for the folders that tell who runs this and where."""
    temporary = re.escape(tempfile.gettempdir()) + r"/kbh-[\w.-]*\w"
    given = [re.escape(str(form)) for path in scratch for form in {path.absolute(), path.resolve()}]
    given.append(SEEN)
    named = [(place, SCRATCH) for place in sorted({*given, temporary}, key=lambda place: (-len(place), place))]
    home = environ.get("HOME") or os.path.expanduser("~")
    if home.startswith("/") and len(home.rstrip("/")) > 1:
        named.append((re.escape(home.rstrip("/")), "~"))
    return [(re.compile(rf"(?<![\w.~>-]){place}(?![\w-]|\.\w)"), name) for place, name in named]
