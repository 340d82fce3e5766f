"""Edits of a submission that change nothing it does: other names, other order, comments, aliases, split strings."""

from __future__ import annotations

import ast
import io
import keyword
import re
import tokenize
from collections.abc import Callable
from random import Random

RESERVED = {"Model", "forward", "get_inputs", "get_init_inputs", "self", "cls", "super", "_", "__init__"}
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
WORDS = ("alpha", "bravo", "tile", "buffer", "probe", "lane", "stage", "value", "left", "delta")

Edit = tuple[int, int, str]  # replace text[start:end]


def apply(text: str, edits: list[Edit]) -> str:
    """The text with all edits made."""
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def tokens(text: str) -> list[tuple[tokenize.TokenInfo, int, int]]:
    """Tokens with their character offsets."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = tokenize.generate_tokens(io.StringIO(text).readline)
    return [(t, starts[t.start[0] - 1] + t.start[1], starts[t.end[0] - 1] + t.end[1]) for t in found if t.string]


def bound_names(tree: ast.Module) -> set[str]:
    """Names the file binds itself, other than by a plain import or as a member of a class."""
    names: set[str] = set()
    members: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, DEFINITIONS):
            names.add(node.name)
            every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            names |= {a.arg for a in every}
            names |= {a.arg for a in (node.args.vararg, node.args.kwarg) if a is not None}
        elif isinstance(node, ast.Lambda):
            names |= {a.arg for a in node.args.args}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias) and node.asname:
            names.add(node.asname)
        elif isinstance(node, ast.ClassDef):
            names.add(node.name)
            for child in node.body:
                if isinstance(child, DEFINITIONS):
                    members.add(child.name)
                for target in getattr(child, "targets", [getattr(child, "target", None)]):
                    if isinstance(target, ast.Name):
                        members.add(target.id)
    return names - members


def fixed_names(tree: ast.Module) -> set[str]:
    """Names that something else than a name token refers to: strings, f-strings, keywords of foreign calls, imports."""
    fixed: set[str] = set(RESERVED)
    local = {n.name for n in ast.walk(tree) if isinstance(n, (*DEFINITIONS, ast.ClassDef))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
            fixed |= set(re.findall(r"\w+", node.value))
        elif isinstance(node, ast.JoinedStr):
            fixed |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        elif isinstance(node, ast.Call):
            func = node.func.value if isinstance(node.func, ast.Subscript) else node.func
            if not (isinstance(func, ast.Name) and func.id in local):
                fixed |= {k.arg for k in node.keywords if k.arg}
        elif isinstance(node, ast.alias):
            fixed.add(node.name.split(".")[0])
    return fixed


def renamed(text: str, rng: Random, keep: frozenset[str] = frozenset()) -> str:
    """Some of the file's own names are others, everywhere."""
    tree = ast.parse(text)
    candidates = sorted(n for n in bound_names(tree) - fixed_names(tree) - keep if not n.startswith("__"))
    used = set(re.findall(r"\w+", text))
    new: dict[str, str] = {}
    for i, name in enumerate(rng.sample(candidates, rng.randint(1, len(candidates))) if candidates else []):
        word = f"{rng.choice(WORDS)}{i}"
        if word not in used and not keyword.iskeyword(word):
            new[name] = word
    edits: list[Edit] = []
    before = ""
    for token, start, end in tokens(text):
        if token.type == tokenize.NAME and token.string in new and before != ".":
            edits.append((start, end, new[token.string]))
        before = token.string
    return apply(text, edits)


def _cuda_strings(text: str) -> list[tuple[int, int]]:
    """The ranges of string tokens that hold CUDA."""
    return [
        (start, end)
        for token, start, end in tokens(text)
        if token.type == tokenize.STRING
        and ("__global__" in token.string or "#include" in token.string)
        and not token.string.lower().startswith(("f", "rf", "fr"))
    ]


_CUDA_WORD = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*', re.S)
_CUDA_LOCAL = re.compile(
    r"\b(?:int|float|double|uint32_t|unsigned|auto|bool|size_t|int64_t|long)\s+(\w+)\s*(?:=|;|,|\))"
)


def cuda_renamed(text: str, rng: Random, keep: frozenset[str] = frozenset()) -> str:
    """Some variables and parameters of the CUDA text are named otherwise."""
    edits: list[Edit] = []
    for start, end in _cuda_strings(text):
        start += re.match(r"""\w?(?:'''|\"\"\"|'|")""", text[start:end]).end()  # type: ignore[union-attr]
        body = text[start:end]
        elsewhere = set(re.findall(r"\w+", text[:start] + text[end:]))
        quoted = {w for m in re.finditer(r'"(?:\\.|[^"\\\n])*"', body) for w in re.findall(r"\w+", m.group())}
        members = set(re.findall(r"(?:\.|->|::|#)\s*(\w+)", body)) | set(re.findall(r"(\w+)\s*::", body))
        macros = set(re.findall(r"#\s*define[^\n]*(?:\\\n[^\n]*)*", body))
        in_macros = {w for m in macros for w in re.findall(r"\w+", m)}
        names = sorted(set(_CUDA_LOCAL.findall(body)) - elsewhere - quoted - members - in_macros)
        if not names:
            continue
        used = set(re.findall(r"\w+", text))
        new = {n: f"{rng.choice(WORDS)}_{i}" for i, n in enumerate(rng.sample(names, rng.randint(1, len(names))))}
        new = {a: b for a, b in new.items() if b not in used}
        for match in _CUDA_WORD.finditer(body):
            if match.group() in new:
                edits.append((start + match.start(), start + match.end(), new[match.group()]))
    return apply(text, edits)


def _uses(node: ast.stmt) -> set[str]:
    """Names that are looked up when the definition itself runs."""
    parts: list[ast.AST] = [*getattr(node, "decorator_list", [])]
    if isinstance(node, ast.ClassDef):
        parts += [*node.bases, *node.body]
    elif isinstance(node, DEFINITIONS):
        parts += [*node.args.defaults, *[d for d in node.args.kw_defaults if d is not None]]
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        parts += [a.annotation for a in every if a.annotation is not None]
        parts += [node.returns] if node.returns is not None else []
    return {n.id for part in parts for n in ast.walk(part) if isinstance(n, ast.Name)}


def reordered(text: str, rng: Random, keep: frozenset[str] = frozenset()) -> str:
    """Definitions beside each other that do not need one another are swapped."""
    lines = text.splitlines(keepends=True)
    body = ast.parse(text).body
    first = [min([n.lineno, *(d.lineno for d in getattr(n, "decorator_list", []))]) - 1 for n in body]
    last = [n.end_lineno or n.lineno for n in body]
    for i in range(len(body) - 1):
        a, b = body[i], body[i + 1]
        both = isinstance(a, (*DEFINITIONS, ast.ClassDef)) and isinstance(b, (*DEFINITIONS, ast.ClassDef))
        if not both or a.name == b.name or a.name in _uses(b) or b.name in _uses(a) or rng.random() < 0.3:  # type: ignore[attr-defined]
            continue
        one, gap, two = lines[first[i] : last[i]], lines[last[i] : first[i + 1]], lines[first[i + 1] : last[i + 1]]
        return "".join([*lines[: first[i]], *two, *gap, *one, *lines[last[i + 1] :]])
    return text


def commented(text: str, rng: Random, keep: frozenset[str] = frozenset()) -> str:
    """Comments and blank lines stand between the lines, also in CUDA text."""
    lines = text.splitlines(keepends=True)
    strings = {
        line
        for token, _, _ in tokens(text)
        if token.type == tokenize.STRING
        for line in range(token.start[0], token.end[0])
    }
    cuda = {
        text.count("\n", 0, start) + i
        for start, end in _cuda_strings(text)
        for i in range(1, text.count("\n", start, end) + 1)
    }
    out: list[str] = []
    for i, line in enumerate(lines):  # what comes before line i, counted from 0
        continued = i > 0 and lines[i - 1].rstrip("\n").endswith("\\")
        if (i not in strings or i in cuda) and not continued and rng.random() < 0.2:
            comment = "// at::matmul(x, w), mma.sync\n" if i in cuda else "# torch.matmul(x, w), tl.dot\n"
            out.append(rng.choice(["\n", "\n\n", comment]))
        out.append(line)
    return "".join(out)


def aliased(text: str, rng: Random, keep: frozenset[str] = frozenset()) -> str:
    """`import torch` is `import torch as t0`, and so on."""
    tree = ast.parse(text)
    plain = [
        alias.name
        for node in tree.body
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.asname is None and "." not in alias.name
    ]
    dotted = {
        alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.asname is None and "." in alias.name
    }
    in_fstrings = {
        n.id for f in ast.walk(tree) if isinstance(f, ast.JoinedStr) for n in ast.walk(f) if isinstance(n, ast.Name)
    }
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    names = sorted(n for n in set(plain) - dotted - in_fstrings - stored if plain.count(n) == 1)
    new = {n: f"{n[:1]}{i}{rng.randint(0, 9)}_" for i, n in enumerate(names)}
    edits: list[Edit] = []
    statement: list[str] = []
    for token, start, end in tokens(text):
        if token.type in (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
            statement = []
            continue
        before = statement[-1] if statement else ""
        if token.type == tokenize.NAME and token.string in new and before != ".":
            if statement[:1] == ["import"]:
                if "as" not in statement:
                    follows = text[end : end + 1]
                    if follows not in (".",) and not text[end:].lstrip(" ").startswith("as "):
                        edits.append((start, end, f"{token.string} as {new[token.string]}"))
            elif statement[:1] != ["from"]:
                edits.append((start, end, new[token.string]))
        statement.append(token.string)
    return apply(text, edits)


def split(text: str, rng: Random, keep: frozenset[str] = frozenset()) -> str:
    """String literals are written as two, side by side."""
    edits: list[Edit] = []
    for token, start, _ in tokens(text):
        match = re.match(r"""([rR]?)('''|\"\"\"|'|")""", token.string) if token.type == tokenize.STRING else None
        if match is None or rng.random() < 0.4:
            continue
        prefix, quote = match.groups()
        body = token.string[len(match.group()) : -len(quote)]
        # not inside an escape, nor beside a quote
        places = [
            i
            for i in range(1, len(body))
            if "\\" not in body[max(i - 10, 0) : i] and quote[0] not in body[i - 1 : i + 1]
        ]
        if places:
            at = start + len(match.group()) + rng.choice(places)
            edits.append((at, at, f"{quote} {prefix}{quote}"))
    return apply(text, edits)


MUTATIONS: dict[str, Callable[..., str]] = {
    "renamed": renamed,
    "cuda-renamed": cuda_renamed,
    "reordered": reordered,
    "commented": commented,
    "aliased": aliased,
    "split": split,
}
