"""What `tools/fuzz.py` feeds: for each target its reader, the texts that it starts from, and its seconds."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MOST_SEED_BYTES = 64 << 10
LINT_SECONDS = 60.0  # the linter's own bound on one file, which its bounds in steps must end long before
READ_SECONDS = 10.0  # of a processor
PROBLEMS = ("01_fp8_gemm", "04_kahan_softmax", "06_sonic_moe_swiglu", "07_w4a16_gemm")


def _texts(*patterns: str, top: Path = ROOT) -> list[str]:
    found = [path for pattern in patterns for path in sorted(top.glob(pattern))]
    return [
        path.read_text(encoding="utf-8", errors="replace")
        for path in found
        if path.is_file() and path.stat().st_size <= MOST_SEED_BYTES
    ]


def _read_submission() -> Callable[[str], None]:
    from kbh_lint.base import paths
    from kbh_lint.service.one_file import Options, lint_file
    from kbh_lint.source.submissions import BadInput, discover

    options = Options(str(paths.rules_dir()), str(paths.problems_dir()), timeout=LINT_SECONDS, raise_errors=True)
    place = Path(tempfile.mkdtemp(prefix="kbh-fuzz-")) / "solution.py"

    def read(text: str) -> None:
        place.write_text(text, encoding="utf-8", errors="replace", newline="")
        for found in discover([place]):
            if isinstance(found, BadInput):
                continue
            report = lint_file(replace(found, problem=PROBLEMS[len(text) % len(PROBLEMS)]), options).report
            lines = len(text.splitlines()) + 1
            for finding in report.findings:
                if finding.span.path == str(place) and not 1 <= finding.span.line <= finding.span.end_line <= lines:
                    raise AssertionError(f"a span outside the file: {finding.span}")

    return read


def _read_cuda() -> Callable[[str], None]:
    from kbh_lint.frontends import cuda

    def read(text: str) -> None:
        module = cuda.lower(text, cuda.lines_origin(text, "k.cu"), cuda_arch=900)
        lines = text.count("\n") + 1
        for node in cuda.walk(module.body):
            if hasattr(node, "loc"):
                span = module.unit.span(node.loc)
                if not 1 <= span.line <= span.end_line <= lines:
                    raise AssertionError(f"a span outside the text: {span}")
        cuda.module_env(module)

    return read


def _read_ptx() -> Callable[[str], None]:
    from kbh_lint.frontends import ptx

    def read(text: str) -> None:
        for instruction in ptx.parse(text):
            repr(instruction)

    return read


def _read_yaml() -> Callable[[str], None]:
    from kbh_lint.marked import DataError
    from kbh_lint.problems import load_problem, load_targets
    from kbh_lint.rules import parse_rule

    folder = Path(tempfile.mkdtemp(prefix="kbh-fuzz-"))
    place = folder / "01_fp8_gemm" / "problem.yaml"
    place.parent.mkdir()

    def read(text: str) -> None:
        place.write_text(text, encoding="utf-8", errors="surrogatepass")
        attempts: tuple[Callable[[], object], ...] = (
            lambda: parse_rule(text, "KBH101-fp8-upcast-bf16-gemm.yaml"),
            lambda: load_problem(place),
            lambda: load_targets(place),
        )
        for attempt in attempts:
            try:
                attempt()
            except DataError as error:
                if "\n" in error.message.strip():
                    raise AssertionError(f"more than a sentence: {error.message!r}") from None

    return read


def _read_json() -> Callable[[str], None]:
    from grader.record.bundle import BundleError, CodecError, cell_from_json, trial_from_json
    from grader.record.bundle.read import parse_entry
    from grader.silicon import silicon_from_json
    from grader.silicon.kernels import parse_trace
    from grader.silicon.ncu import ProfilerError
    from kbh_lint.source.submissions import discover

    folder = Path(tempfile.mkdtemp(prefix="kbh-fuzz-"))
    (folder / "solution.py").write_text("x = 1\n", encoding="utf-8")
    expected = (BundleError, CodecError, ProfilerError)

    def read(text: str) -> None:
        raw = text.encode("utf-8", errors="surrogatepass")
        (folder / "run.json").write_bytes(raw)
        list(discover([folder]))
        try:
            value: Any = json.loads(text)
        except (ValueError, RecursionError):
            value = text
        inner = value.get("data") if isinstance(value, dict) else value
        silicon = inner.get("silicon") if isinstance(inner, dict) else inner
        attempts: tuple[Callable[[], object], ...] = (
            lambda: parse_entry(raw, 0, None),
            lambda: parse_trace(text),
            lambda: cell_from_json(inner),
            lambda: trial_from_json(inner),
            lambda: silicon_from_json(silicon),
        )
        for attempt in attempts:
            with contextlib.suppress(*expected):
                attempt()

    return read


def _read_task() -> Callable[[str], None]:
    from kbh_lint import kernelbench
    from kbh_lint.authors import suppress
    from kbh_lint.fingerprints.functions import cpp_functions, python_functions
    from kbh_lint.marked import DataError
    from kbh_lint.triage import baseline
    from kbh_lint.triage.changes import diff_names

    folder = Path(tempfile.mkdtemp(prefix="kbh-fuzz-"))
    problem, known = folder / "task.py", folder / "known.json"

    def read(text: str) -> None:
        for path in (problem, problem.with_suffix(".yaml"), known):
            path.write_text(text, encoding="utf-8", errors="replace", newline="")
        suppress.read(problem)
        suppress.read(problem.with_suffix(".yaml"))
        diff_names(text)
        python_functions(text)
        cpp_functions(text)
        with contextlib.suppress(baseline.BaselineError):
            baseline.read(known)
        with contextlib.suppress(DataError):
            kernelbench.load(problem)
        problem.with_suffix(".yaml").unlink()
        if "\n" in kernelbench.load(problem).hole:
            raise AssertionError("more than a sentence")

    return read


def _read_silicon() -> Callable[[str], None]:
    from grader.silicon.counters import metrics_of
    from grader.silicon.ncu import ProfilerError, parse
    from grader.silicon.sass.census import SassError, census

    metrics = metrics_of("9.0")

    def read(text: str) -> None:
        with contextlib.suppress(ProfilerError):
            parse(text, metrics)
        with contextlib.suppress(SassError):
            census(text)

    return read


def _rule_codes() -> list[str]:
    from kbh_lint.base import paths
    from kbh_lint.rules import load_rules

    rules = load_rules(paths.rules_dir())
    return [example.code for rule in rules for example in (*rule.bad, *rule.good)]


def _cuda_texts() -> list[str]:
    return [
        text
        for text in (*_texts("tests/idioms/*/*.py", "problems/*/honest/*.py"), *_rule_codes())
        if "__global__" in text
    ]


def _ptx_texts() -> list[str]:
    texts = _cuda_texts()
    inline = [found for text in texts for found in re.findall(r'"([a-z][^"\n]*;[^"\n]*)"', text)]
    return [
        *inline,
        "{ .reg .pred p; setp.ne.b32 p, %0, 0;"
        " @p mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%1,%2}, {%3}, {%4}, {%5}; }",
    ]


def _stored(*patterns: str) -> list[str]:
    """Texts of the bundles that results/ holds packed."""
    from grader.record.bundle.packed import unpacked

    with unpacked(ROOT / "results" / "h200.tar.xz") as place:
        return _texts(*patterns, top=place)


def _bundle_texts() -> list[str]:
    return _stored("*/entries/*.json", "*/*.json", "*/*/*.json")[:400]


def _reports() -> list[str]:
    texts = _stored("*/objects/**/*")
    return [text for text in texts if '"Kernel Name"' in text or "traceEvents" in text or ".text." in text][
        :60
    ] + _sass_texts()


def _sass_texts() -> list[str]:
    return _texts("tests/grader/*.sass", "tests/grader/sass/*", "tests/grader/test_sass.py")


TARGETS: dict[str, tuple[Callable[[], Callable[[str], None]], Callable[[], Iterable[str]], float]] = {
    "submission": (
        _read_submission,
        lambda: [*_texts("tests/idioms/*/*.py", "examples/*/*.py"), *_rule_codes()],
        READ_SECONDS,
    ),
    "cuda": (_read_cuda, _cuda_texts, READ_SECONDS),
    "ptx": (_read_ptx, _ptx_texts, READ_SECONDS),
    "yaml": (
        _read_yaml,
        lambda: _texts("rules/*.yaml", "problems/*/problem.yaml", "problems/hardware.yaml"),
        READ_SECONDS,
    ),
    "json": (_read_json, _bundle_texts, READ_SECONDS),
    "task": (
        _read_task,
        lambda: [*_texts("tests/kernelbench/problems/*.py", "problems/*/problem.yaml"), *_cuda_texts()],
        READ_SECONDS,
    ),
    "silicon": (_read_silicon, _reports, READ_SECONDS),
}
