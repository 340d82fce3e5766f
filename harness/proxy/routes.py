"""Routes: which upstreams there are, from the project's own file and a user's, and what a call to one costs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import cast, get_args
from urllib.parse import urlsplit

from harness.proxy.base import Price, Route
from harness.record.exchange import Dialect
from kbh_lint.marked import DataError, Fields, Map, load

__all__ = ["RouteError", "address", "find_route", "load_routes", "parse_routes", "price_of"]

MAX_FILE_BYTES = 1 << 20
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_MODEL = re.compile(r"[A-Za-z0-9][\w.:/@+-]{0,199}", re.ASCII)
_HEADER = re.compile(r"[A-Za-z0-9-]{1,60}")
_VALUE = re.compile(r"[ -~]{0,2000}")
_VERSIONED = re.compile(r"/v\d+[a-z0-9]*(?:/openai)?/?$")
_DIALECTS = get_args(Dialect)
_OURS = {"host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding", "cookie"}


class RouteError(Exception):
    """A route cannot be found or its file cannot be used; the text is one sentence."""


def find_route(name: str, file: Path | None = None) -> tuple[Route, str]:
    """The route and the model that ROUTE/MODEL names, with a user's file before the project's. Raises RouteError."""
    route_name, slash, model = name.partition("/")
    routes = load_routes(file)
    if not slash or not model:
        raise RouteError(f"{name[:100]!r} is not ROUTE/MODEL; routes are {', '.join(sorted(routes))}")
    if route_name not in routes:
        where = f" nor in {file}" if file else "; name a file of your own with --routes"
        raise RouteError(f"there is no route {route_name[:60]!r} among {', '.join(sorted(routes))}{where}")
    if _MODEL.fullmatch(model) is None or ".." in model:
        raise RouteError(f"{model[:100]!r} is not the name of a model")
    return routes[route_name], model


def load_routes(file: Path | None = None) -> Mapping[str, Route]:
    """The project's routes and those of a user's file, which win. Raises RouteError."""
    ours = resources.files("harness.proxy").joinpath("routes.yaml").read_text("utf-8")
    found = dict(parse_routes(ours, "routes.yaml"))
    if file is not None:
        try:
            with file.open("rb") as opened:
                data = opened.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise RouteError(f"{file}: {(error.strerror or str(error)).lower()}") from None
        if len(data) > MAX_FILE_BYTES:
            raise RouteError(f"{file} is longer than {MAX_FILE_BYTES >> 20} MiB")
        found |= parse_routes(data.decode("utf-8", "replace"), str(file))
    return found


def parse_routes(text: str, path: str) -> Mapping[str, Route]:
    """The routes in the text of a file. Raises RouteError, which names file and line."""
    try:
        top = Fields(load(text, path), path, "the file")
        listed = top.mapping("routes")
        top.done()
        return {name: _route(name, listed, path) for name in listed}
    except DataError as error:
        raise RouteError(str(error)) from None


def _route(name: str, listed: Map, path: str) -> Route:
    line = listed.lines[name]
    if _NAME.fullmatch(name) is None:
        raise DataError(path, line, f"{name!r} is not a name for a route: small letters, digits, - and _")
    if not isinstance(listed[name], Map):
        raise DataError(path, line, f"the route {name} is not a mapping")
    fields = Fields(listed[name], path, f"the route {name}")
    route = Route(
        name,
        _urls(fields),
        fields.text("key_variable", ""),
        fields.text("key_file", ""),
        _headers(fields),
        fields.texts("providers"),
        _models(fields),
        _prices(fields),
    )
    fields.done()
    return route


def _urls(fields: Fields) -> Mapping[Dialect, str]:
    found: dict[Dialect, str] = {}
    for dialect, url in fields.mapping("urls").items():
        if dialect not in _DIALECTS:
            raise fields.fail("urls", f"{dialect!r} is not one of {', '.join(_DIALECTS)}")
        if not isinstance(url, str) or not _is_base(url):
            raise fields.fail("urls", f"{url!r} is not an address such as https://api.example.com/v1")
        found[cast(Dialect, dialect)] = url.rstrip("/")
    if not found:
        raise fields.fail("urls", f"{fields.what} names no address")
    return found


def _is_base(url: str) -> bool:
    """Whether this is an address of https, or of http on this machine, with a path alone."""
    try:
        parts = urlsplit(url)
        port_is_one = parts.port is None or parts.port > 0
    except ValueError:
        return False
    if not parts.hostname or not port_is_one or parts.query or parts.fragment or "@" in parts.netloc:
        return False
    if not url.isascii() or any(c <= " " for c in url) or re.search(r"\.\.|%", parts.path):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1"))


def _headers(fields: Fields) -> Mapping[str, str]:
    found = fields.take("headers", {})
    if not isinstance(found, dict):
        raise fields.fail("headers", f"`headers` of {fields.what} must be a mapping")
    for name, value in found.items():
        if _HEADER.fullmatch(name) is None or name.lower() in _OURS:
            raise fields.fail("headers", f"{name!r} is not a header that a route can set")
        if not isinstance(value, str) or _VALUE.fullmatch(value) is None:
            raise fields.fail("headers", f"the header {name} is not plain text")
    return {name.lower(): value for name, value in found.items()}


def _models(fields: Fields) -> Mapping[str, tuple[str, ...]]:
    found = fields.take("models", {})
    if not isinstance(found, Map):
        if found:
            raise fields.fail("models", f"`models` of {fields.what} must be a mapping of names to lists of names")
        return {}
    inner = Fields(found, fields.path, f"`models` of {fields.what}")
    return {name: inner.texts(name) for name in found}


def _prices(fields: Fields) -> Mapping[str, Price]:
    found = fields.take("prices", {})
    if not isinstance(found, dict):
        raise fields.fail("prices", f"`prices` of {fields.what} must be a mapping of models to prices")
    prices = {}
    for model, given in found.items():
        known = {"input", "output", "cache_read", "cache_write"}
        if not isinstance(given, dict) or not {"input", "output"} <= set(given) <= known:
            raise fields.fail(
                "prices", f"the price of {model} needs input and output, and can have cache_read and _write"
            )
        if not all(_is_price(value) for value in given.values()):
            raise fields.fail("prices", f"the price of {model} is not in US dollars for a million tokens")
        prices[model] = Price(**{key: float(value) for key, value in given.items()})
    return prices


def _is_price(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e5


def price_of(route: Route, model: str) -> Price | None:
    """What a model costs on a route, if that is known."""
    return route.prices.get(model)


def address(base: str, version: str, target: str) -> str:
    """Where a call goes: below the base URL, with the dialect's version unless the base ends in one."""
    return base.rstrip("/") + ("" if _VERSIONED.search(urlsplit(base).path) else f"/{version}") + target
