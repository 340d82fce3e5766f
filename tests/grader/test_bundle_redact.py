"""No planted secret survives redaction, and honest text does."""

from __future__ import annotations

import base64
import json
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from grader.record.bundle.redact import LIMIT, redact

ALNUM = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
NOTHING: dict[str, str] = {"HOME": "/nowhere/at-all"}


def body(least: int, letters: str = ALNUM) -> st.SearchStrategy[str]:
    """Random letters with a digit among the first."""
    return st.text(letters, min_size=least, max_size=least + 20).map(lambda text: "7" + text)


def jwt(text: str) -> str:
    part = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    return f"eyJ{part}.eyJ{part}.{part}"


TOKENS = st.one_of(
    body(20).map("sk-".__add__),
    body(40, ALNUM + "_-").map("sk-ant-api03-".__add__),
    body(20).map("sk_live_".__add__),
    body(36).map("ghp_".__add__),
    body(36).map("ghs_".__add__),
    body(60, ALNUM + "_").map(lambda text: "github_pat_11ABCDEFG0123456789ab" + text),
    body(30).map("hf_".__add__),
    body(20, ALNUM + "-").map("xoxb-".__add__),
    body(20).map("glpat-".__add__),
    body(36).map("npm_".__add__),
    body(35, ALNUM + "_-").map("AIza".__add__),
    st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", min_size=16, max_size=16).map("AKIA".__add__),
    st.text(ALNUM, min_size=12, max_size=40).map(jwt),
)
AROUND = st.sampled_from(
    [
        "",
        " ",
        "\n",
        '"',
        "'",
        "=",
        ": ",
        "(",
        ",",
        "\\n",
        "\\t",
        "%20",
        "\x1b[31m",
        "\x1b[0;32m",
        "export X=",
        "/",
        "tok:",
    ]
)
BEHIND = st.sampled_from(["", " ", "\n", '"', "'", ")", ",", "\\n", "\x1b[0m", ";", ".", "/x", "<", "é"])


@given(TOKENS, AROUND, BEHIND, st.text(max_size=10))
def test_a_token_of_a_known_form_goes_wherever_it_stands(token: str, before: str, behind: str, other: str) -> None:
    clean = redact(f"{other} {before}{token}{behind}", environ=NOTHING)
    assert token not in clean and token[-8:] not in clean and token[4:12] not in clean


@given(st.lists(TOKENS, min_size=2, max_size=4), st.sampled_from(["", " ", "\n", "|"]))
def test_tokens_side_by_side_all_go(tokens: list[str], between: str) -> None:
    clean = redact(between.join(tokens), environ=NOTHING)
    assert not [token for token in tokens if token[-10:] in clean]


SECRETS = st.text(st.characters(exclude_categories=["Cs"]), min_size=6, max_size=60).filter(
    lambda text: len(text.strip()) >= 6 and text not in "<redacted><scratch>"
)


@given(SECRETS, st.text(max_size=20), st.text(max_size=20))
@example(r"a\d+[.*(?b", "x", "y")
@example("redacted>", "<", "<redacted>")
def test_the_value_of_a_secret_variable_goes_also_from_urls_and_json(secret: str, before: str, behind: str) -> None:
    environ = {**NOTHING, "SERVICE_API_KEY": secret}
    for form in (secret, quote(secret, safe=""), json.dumps(secret)[1:-1]):
        clean = redact(f"{before}{form}{behind}", environ=environ)
        assert form not in clean.replace("<redacted>", "\0")


def test_every_long_line_of_a_secret_of_several_lines_goes() -> None:
    lines = ["first line of the secret", "second line of the secret", "no"]
    clean = redact(f"saw {lines[1]} there, no doubt", environ={**NOTHING, "DEPLOY_CREDENTIAL": "\n".join(lines)})
    assert clean == "saw <redacted> there, no doubt"


@pytest.mark.parametrize("name", ["MY_KEY", "token", "DB_PASSWORD", "AUTHORIZATION", "HTTP_AUTH", "SESSION_COOKIE"])
def test_a_variable_that_names_a_secret_is_one_in_any_case(name: str) -> None:
    assert redact("a word, horses, twice: horses", environ={**NOTHING, name: "horses"}).count("<redacted>") == 2


@pytest.mark.parametrize("name", ["PATH", "MAX_OUTPUT_TOKENS", "GIT_AUTHOR_NAME", "AUTHORS"])
def test_a_variable_that_names_no_secret_is_left_alone(name: str) -> None:
    assert redact("the limit is 128000", environ={**NOTHING, name: "128000"}) == "the limit is 128000"


KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7bq\nZm9vYmFyYmF6cXV4+/==\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("https://user:pass@host/path", "https://<redacted>@host/path"),
        ("git+ssh://git@host/path", "git+ssh://git@host/path"),
        ("https://me:p@ss:w0rd@host:80/a@b", "https://<redacted>@host:80/a@b"),
        ("https://0123456789abcdef0123@host/x", "https://<redacted>@host/x"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: <redacted>"),
        ("{'Authorization': 'Bearer abc'}\nnext", "{'Authorization': <redacted>\nnext"),
        ("sent Bearer abcdef0123456789xyz= twice", "sent Bearer <redacted> twice"),
        ("password=hunter22 user=me", "password=<redacted> user=me"),
        ('{"api_key": "0123456789"}', '{"api_key": "<redacted>"}'),
        ('{\\"client_secret\\": \\"0123456789\\"}', '{\\"client_secret\\": \\"<redacted>\\"}'),
        (f"a\n{KEY}\nb", "a\n<redacted>\nb"),
        (f"a {KEY[:60]}", "a <redacted>"),
        (f"a {KEY} b {KEY} c", "a <redacted> b <redacted> c"),
        (repr(KEY), "'<redacted>'"),
        ("half \ud800 pair", "half ? pair"),
    ],
)
def test_other_forms_of_secrets_go_and_what_stands_beside_them_stays(text: str, clean: str) -> None:
    assert redact(text, environ=NOTHING) == clean


def test_home_and_scratch_folders_get_short_names() -> None:
    temporary = f"{tempfile.gettempdir()}/kbh-grade-x1_y2/home"
    text = f"/home/me/a /home/me /home/mean file:///home/me. /srv/home/me {temporary} /data/cell7/x /data/cell70"
    clean = redact(text, environ={"HOME": "/home/me"}, scratch=[Path("/data/cell7")])
    assert clean == "~/a ~ /home/mean file://~. /srv/home/me <scratch>/home <scratch>/x /data/cell70"


HONEST = [
    'Traceback (most recent call last):\n  File "solution.py", line 12, in forward\n    return x @ self.w',
    "RuntimeError: CUDA error: an illegal memory access was encountered at 0x7f3a5c000000",
    "triton.compiler.errors.CompilationError: at 14:8: tl.dot(a, b, acc, input_precision='ieee')",
    "ptxas info    : Used 168 registers, 49152 bytes smem, 400 bytes cmem[0]",
    "tokens=4096 topk=8 num_tokens: 16384 key_states value_states token_id seq_lens authored-compute",
    "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "https://docs.example.org/a?b=c#d https://host:8080/x@y mailto:me@host task-2024-force-multiplier-long-name",
    "hf_hub_download_from_repository basic understanding bearer of good news sk-learn AKIA eyJ",
    "sk-learn-compatible-estimators-only",
    "_ZN7cutlass6KernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEE",
    "def api_key(self): pass  # password: none, secret: no",
]


@given(st.lists(st.sampled_from(HONEST), max_size=4), st.sampled_from(["\n", " ", "\t"]))
def test_honest_text_stays_as_it_is(lines: list[str], between: str) -> None:
    text = between.join(lines)
    assert redact(text, environ={**NOTHING, "A_TOKEN": "0f9e8d7c6b5a"}) == text


PIECES = st.sampled_from(
    [
        "<redacted>", "<scratch>", "<", ">", "~", "/home/me", "/", ".", "-", "_", "a", "0", "\n", " ", "@", ":", "://",
        "sk-", "ghp_", "eyJ", "AKIA0123456789ABCDEF", "abcdefgh01234567", "password=", "authorization:", "bearer ",
        "\\n", "%20", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "hunter2", '"', "api_key", "[31m",
    ]
)  # fmt: skip


@settings(max_examples=300)
@given(st.lists(PIECES, max_size=14).map("".join))
def test_redacting_twice_is_redacting_once(text: str) -> None:
    environ = {"HOME": "/home/me", "A_SECRET": "hunter2", "B_TOKEN": "redacted", "C_KEY": "ab>cdef"}
    clean = redact(text, environ=environ)
    assert redact(clean, environ=environ) == clean
    assert "hunter2" not in clean


@pytest.mark.parametrize(
    "unit",
    [
        "eyJ", "-eyJ", "eyJa_", "eyJabcdefgh.", "://a:", "://a:b", "sk-", "sk-a", "xoxb-", "a@", "a", " ", "<redacted>",
        "-----BEGIN PRIVATE KEY", "bearer ", "password=", "authorization:", "\\nsk-", "%20sk-", "/nowhere",
    ],
)  # fmt: skip
def test_the_time_is_linear_in_the_text_whatever_it_holds(unit: str) -> None:
    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        began = time.process_time()
        redact(text, environ=NOTHING)
        return time.process_time() - began

    least = min(seconds(20_000) for _ in range(2))
    assert seconds(320_000) < 16 * 5 * max(least, 0.002)  # 256 times as much where it is quadratic


def test_long_text_keeps_its_two_ends_and_says_what_is_left_out() -> None:
    text = "first " + "word " * (LIMIT // 4) + " last"
    clean = redact(text, environ=NOTHING)
    assert len(clean) <= LIMIT and clean.startswith("first") and clean.endswith("last")
    assert "characters are left out" in clean
    assert redact(clean, environ=NOTHING) == clean
