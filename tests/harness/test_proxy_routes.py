"""Routes come from files that are checked line by line, and keys from places that nobody else can read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.proxy.base import Price, Route
from harness.proxy.keys import KeyFault, read_key
from harness.proxy.routes import RouteError, address, find_route, load_routes, parse_routes

OWN = """\
routes:
  mine:
    urls:
      openai-chat: "http://127.0.0.1:8000/v1/"
    key_file: ~/key
    providers: [deepinfra, together]
    models: {qwen3: qwen3-0725}
    headers: {X-Title: kbh}
    prices:
      qwen3: {input: 1, output: 2.5}
"""


def test_the_projects_routes_are_there() -> None:
    route, model = find_route("openrouter/qwen/qwen3")
    assert (route.name, model) == ("openrouter", "qwen/qwen3")
    assert set(load_routes()) == {"anthropic", "openai", "google", "moonshot", "openrouter"}
    assert all(url.startswith("https://") for route in load_routes().values() for url in route.urls.values())


def test_a_file_of_ones_own_wins(tmp_path: Path) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(OWN)
    route, model = find_route("mine/qwen3", file)
    assert model == "qwen3" and route == Route(
        "mine", {"openai-chat": "http://127.0.0.1:8000/v1"}, "", "~/key", {"x-title": "kbh"},
        ("deepinfra", "together"), {"qwen3": ("qwen3-0725",)}, {"qwen3": Price(1.0, 2.5)},
    )  # fmt: skip
    assert find_route("openai/gpt", file)[0].name == "openai"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("routes: [", "own.yaml:2: not valid YAML"),
        ("routes:\n  A b:\n    urls: {}\n", "own.yaml:2: 'A b' is not a name for a route"),
        ("routes:\n  a: 3\n", "own.yaml:2: the route a is not a mapping"),
        ("routes:\n  a:\n    urls: {}\n", "own.yaml:3: the route a names no address"),
        ("routes:\n  a:\n    urls: {soap: 'https://x'}\n", "'soap' is not one of anthropic-messages"),
        ("routes:\n  a:\n    urls: {gemini: 'http://x.example'}\n", "is not an address"),
        ("routes:\n  a:\n    urls: {gemini: 'https://u:p@x.example'}\n", "is not an address"),
        ("routes:\n  a:\n    urls: {gemini: 'https://x.example/?q=1'}\n", "is not an address"),
        ("routes:\n  a:\n    urls: {gemini: 'https://x.example/..'}\n", "is not an address"),
        ("routes:\n  a:\n    urls: {gemini: 'https://x.example:99999'}\n", "is not an address"),
        ("routes:\n  a:\n    urls: {gemini: 'file:///etc/passwd'}\n", "is not an address"),
        ("routes:\n  a:\n    urls: {gemini: 'https://x'}\n    colour: red\n", "own.yaml:4: the route a has no key"),
        ("routes:\n  a:\n    urls: {gemini: 'https://x'}\n    headers: {Host: y}\n", "not a header that a route"),
        ("routes:\n  a:\n    urls: {gemini: 'https://x'}\n    headers: {a: \"b\\nc\"}\n", "is not plain text"),
        ("routes:\n  a:\n    urls: {gemini: 'https://x'}\n    prices: {m: {input: 1}}\n", "needs input and output"),
        ("routes:\n  a:\n    urls: {gemini: 'https://x'}\n    prices: {m: {input: -1, output: 1}}\n", "in US dollars"),
        ("routes:\n  a:\n    urls: {gemini: 'https://x'}\n    models: [m]\n", "must be a mapping of names"),
        ("- a\n", "must hold one mapping"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_file_is_told_in_one_sentence_with_its_place(text: str, said: str) -> None:
    with pytest.raises(RouteError) as told:
        parse_routes(text, "own.yaml")
    assert said in str(told.value) and "\n" not in str(told.value)


@pytest.mark.parametrize("name", ["openai", "openai/", "nowhere/model", "openai/../x", "openai/a b", "openai/a\nb"])
def test_a_name_that_is_no_route_and_model_is_told(name: str) -> None:
    with pytest.raises(RouteError) as told:
        find_route(name)
    assert "\n" not in str(told.value)


def test_a_file_that_is_not_there_or_too_long_is_told(tmp_path: Path) -> None:
    with pytest.raises(RouteError, match="no such file"):
        load_routes(tmp_path / "none.yaml")
    (tmp_path / "big.yaml").write_bytes(b"#" * (2 << 20))
    with pytest.raises(RouteError, match="longer than"):
        load_routes(tmp_path / "big.yaml")


@pytest.mark.parametrize(
    ("base", "made"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1/messages"),
        ("https://x/api/paas/v4/", "https://x/api/paas/v4/messages"),
        ("https://x/v1beta/openai", "https://x/v1beta/openai/messages"),
        ("https://x/anthropic", "https://x/anthropic/v1/messages"),
    ],
)
def test_an_address_gets_the_version_that_its_base_lacks(base: str, made: str) -> None:
    assert address(base, "v1", "/messages") == made


def route(**given: str) -> Route:
    return Route("r", {"openai-chat": "https://x"}, **given)  # type: ignore[arg-type]


def test_a_key_comes_from_the_variable_else_the_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("from-the-file\n")
    file.chmod(0o600)
    both = route(key_variable="A_KEY", key_file=str(file))
    assert read_key(both, {"A_KEY": " from-the-variable "}) == "from-the-variable"
    assert read_key(both, {}) == "from-the-file" and read_key(route(), {}) == ""


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (b"secret-key", 0o644, "others can read or write"),
        (b"secret-key", 0o620, "others can read or write"),
        (b"two secret-words", 0o600, "does not hold one key"),
        (b"\xff\xfesecret", 0o600, "does not hold one key"),
        (b"", 0o600, "does not hold one key"),
        (b"s" * 20_000, 0o600, "longer than"),
    ],
)
def test_a_key_file_that_is_not_ones_own_secret_is_refused(
    tmp_path: Path, content: bytes, mode: int, said: str
) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    file.chmod(mode)
    with pytest.raises(KeyFault) as told:
        read_key(route(key_file=str(file)), {})
    assert said in str(told.value) and "secret" not in str(told.value)


def test_a_key_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(KeyFault, match="A_KEY, which is not set"):
        read_key(route(key_variable="A_KEY"), {})
    with pytest.raises(KeyFault, match="no such file"):
        read_key(route(key_file=str(tmp_path / "none")), {})
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(KeyFault, match="not a plain file"):
        read_key(route(key_file=str(tmp_path / "pipe")), {})
