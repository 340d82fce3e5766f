"""The prompt of a problem: `prompt.in.md` in the author's words, with every number from `problem.yaml`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from textwrap import wrap

from kbh_lint.authors.folder import Folder, read_text
from kbh_lint.base.folder_facts import Prompt
from kbh_lint.findings import Fact
from kbh_lint.problems import ArgSpec, Ban, Contract, OutputSpec, Problem, Promise, StateSpec

WIDTH = 100
TEMPLATE, PROMPT = "prompt.in.md", "prompt.md"
_PLACE = re.compile(r"\{\{\s*([a-z_]+)\s*\}\}")
_NUMBER = re.compile(r"(?<![\w.`-])\d[\d,.]*%?(?![\w-])")  # `e4m3`, `fp32` and `int4` are names, not numbers


class PromptError(Exception):
    """A template that cannot be rendered; the text is one sentence, `line` where."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line, self.message = line, message


def render(problem: Problem, template: str) -> str:
    """Renders the prompt of a problem from a template. Raises PromptError for a place holder that does not exist."""

    def fill(found: re.Match[str]) -> str:
        maker = PLACES.get(found[1])
        if maker is None:
            line = template.count("\n", 0, found.start()) + 1
            raise PromptError(line, f"there is no `{{{{{found[1]}}}}}`; there are {', '.join(sorted(PLACES))}")
        return maker(problem)

    return "\n\n".join(_wrapped(block) for block in _PLACE.sub(fill, template).strip().split("\n\n")) + "\n"


def _wrapped(block: str) -> str:
    """A paragraph at WIDTH columns; lists, tables and code as they are."""
    if block.lstrip().startswith(("|", "- ", "```", "#")):
        return block.strip("\n")
    return "\n".join(wrap(" ".join(block.split()), WIDTH, break_long_words=False, break_on_hyphens=False))


def facts(folder: Folder) -> Iterator[Fact]:
    """Yields `prompt` facts: the prompt is missing or is not what the template gives, or the template says a number
    of its own."""
    template, prompt = (read_text(folder.path / name) for name in (TEMPLATE, PROMPT))
    if template is None:
        yield folder.fact(Prompt(state="no-template", detail=TEMPLATE))
        return
    for line, text in enumerate(template.splitlines(), 1):
        for number in _NUMBER.findall(_PLACE.sub("", text)):
            yield folder.fact_in(Prompt(state="own-number", detail=number), TEMPLATE, line)
    try:
        wanted = render(folder.problem, template)
    except PromptError as error:
        yield folder.fact_in(Prompt(state="broken-template", detail=error.message), TEMPLATE, error.line)
        return
    if prompt is None:
        yield folder.fact(Prompt(state="missing", detail=PROMPT))
    elif prompt != wanted:
        pairs = zip(prompt.splitlines() + [""], wanted.splitlines() + [""], strict=False)
        line = next((i for i, (one, other) in enumerate(pairs, 1) if one != other), 1)
        yield folder.fact_in(Prompt(state="stale", detail=f"line {line}"), PROMPT, line)


def write(folder: Path, problem: Problem) -> str:
    """Renders a problem's template and returns the prompt. Raises PromptError when there is no template."""
    template = read_text(folder / TEMPLATE)
    if template is None:
        raise PromptError(1, f"{folder} has no {TEMPLATE}")
    return render(problem, template)


# --- place holders -----------------------------------------------------------------------------------------


def _contract(problem: Problem) -> Contract:
    return next(iter(problem.contracts.values()))


def _shapes(problem: Problem) -> str:
    names = list(problem.shapes[0].symbols)
    rows = [names, ["---"] * len(names)]
    rows += [[_plain(shape.symbols[name]) for name in names] for shape in problem.shapes]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _interface(problem: Problem) -> str:
    """The calls a solution must answer, as code."""
    contract = _contract(problem)
    init = ", ".join(contract.init)
    lines = ["```python", "class Model(nn.Module):", f"    def __init__(self, {init}): ..."]
    lines += [f"        # state: {_typed(spec.name, spec)}" for spec in contract.state]
    lines.append(f"    def forward(self, {', '.join(spec.name for spec in contract.forward)}): ...")
    lines += [f"        # {_typed(spec.name, spec)}" for spec in contract.forward]
    lines += [f"        # returns {_typed(spec.name, spec)}" for spec in contract.output]
    return "\n".join([*lines, "```"])


def _typed(name: str, spec: ArgSpec | StateSpec | OutputSpec) -> str:
    sizes = ", ".join(str(size) for size in spec.shape)
    return f"{name + ': ' if name else ''}{spec.dtype}[{sizes}]"


_METRICS = {
    "allclose": "an element may be off by {tol} plus {tol} times the exact value",
    "element": "an element may be off by {tol} times the exact value",
    "scaled": "an element may be off by {tol} times the sum of its exact size and the output's root mean square",
    "selection": "values are compared bit for bit; indices must be unique and in range, and lead to those values",
}


def _tolerance(problem: Problem) -> str:
    contract = _contract(problem)
    text = _METRICS[contract.compare.metric]
    numbers = " and ".join(f"{number:g}" for number in contract.tolerance.values())
    return text.format(tol=numbers) + _special(problem)


def _special(problem: Problem) -> str:
    """What holds on stressed and structured inputs that have a tolerance of their own."""
    own = [number for stress in problem.stress for number in stress.tolerance.values()]
    own += [number for case in problem.cases for number in case.tolerance.values()]
    if not own:
        return ""
    span = f"{min(own):g} to {max(own):g}" if min(own) < max(own) else f"{own[0]:g}"
    return f" (on some scaled or structured inputs the number is {span})"


def _promises(problem: Problem) -> str:
    told: dict[str, Promise] = {promise.id: promise for promise in problem.promises_for(_contract(problem).id)}
    return "\n".join(f"- {_one_line(promise.text)}" for promise in told.values())


def _bans(problem: Problem) -> str:
    if not problem.bans:
        return "Nothing is banned by name."
    return "\n".join(f"- {_ban(ban)}" for ban in problem.bans)


def _ban(ban: Ban) -> str:
    return f"`{ban.symbol}`" + (
        f": {_one_line(ban.reason)[0].lower()}{_one_line(ban.reason)[1:]}" if ban.reason else ""
    )


def _cases(problem: Problem) -> str:
    return "\n".join(f"- {_one_line(case.text)}" for case in problem.cases)


def _domain(problem: Problem) -> str:
    """How inputs and state are drawn, in words."""
    contract = _contract(problem)
    drawn = [(spec.name, spec.domain) for spec in contract.forward] + [(s.name, s.domain) for s in contract.state]
    return "\n".join(f"- `{name}`: {_drawn(domain)}" for name, domain in drawn)


def _drawn(domain: Mapping[str, object]) -> str:
    rest = ", ".join(f"{key} {_inner(value)}" for key, value in domain.items() if key != "kind")
    kind = str(domain.get("kind", "any value")).replace("-", " ")
    return f"{kind} ({rest})" if rest else kind


def _inner(value: object) -> str:
    if not isinstance(value, Mapping):
        return _plain(value)
    return _drawn(value) if "kind" in value else ", ".join(f"{key} {_plain(item)}" for key, item in value.items())


def _regime(problem: Problem) -> str:
    what = {"compute": f"the dense {problem.precision.split('_')[0]} peak", "memory": "the memory bandwidth"}
    return what[problem.regime]


def _one_line(text: str) -> str:
    return " ".join(text.split())


PLACES: Mapping[str, Callable[[Problem], str]] = {
    "id": lambda problem: problem.id,
    "title": lambda problem: problem.title,
    "operation": lambda problem: _one_line(problem.operation),
    "shapes": _shapes,
    "shape_count": lambda problem: str(len(problem.shapes)),
    "interface": _interface,
    "domain": _domain,
    "tolerance": _tolerance,
    "cases": _cases,
    "promises": _promises,
    "bans": _bans,
    "flops": lambda problem: f"`{problem.flops}`",
    "bytes": lambda problem: f"`{problem.bytes}`",
    "peak": _regime,
}
