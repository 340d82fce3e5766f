"""A drop-in for KernelBench's `validate_kernel_static`: its signature and its answer, on what the program does.

    from kbh_lint.compat.kernelbench import validate_kernel_static
    valid, errors, warnings = validate_kernel_static(code, backend="triton", reference="level1/1_Square_matrix.py")

The names of its checks stay; what each comes to is decided by the linter's rules that name it (`kernelbench:` in their
files), not by words in the text. A check that is asked for by another name may be a rule of ours, by id, its prefix,
name or class.
"""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from kbh_lint import engine, registry
from kbh_lint.base import paths
from kbh_lint.base.errors import UsageError
from kbh_lint.base.limits import TimeUp, fewer_collections, time_limit
from kbh_lint.findings import NOTHING_FOLLOWED, Analysis, FileReport, Finding, Unread
from kbh_lint.rules import Rule
from kbh_lint.service import one_file
from kbh_lint.source.profiles import KERNELBENCH, PRECISIONS, PROFILES
from kbh_lint.source.sidecars import split_bundle, with_reference
from kbh_lint.source.submissions import Submission, text_of

# The languages of kernels that count as a backend: of C++, and those whose row names it.
_CPP: Mapping[str, tuple[str, ...]] = {
    "cuda": ("cuda", "cutlass"), "hip": ("cuda",), "thunderkittens": ("cuda",), "cute": ("cuda", "cutlass"),
    "cutlass": ("cuda", "cutlass"),
}  # fmt: skip
BACKENDS: Mapping[str, tuple[str, ...]] = {
    backend: (*_CPP.get(backend, ()), *(row.name for row in registry.rows() if backend in row.backends))
    for backend in sorted({*_CPP, *(backend for row in registry.rows() for backend in row.backends)})
}
Theirs = Mapping[str, tuple[str, ...]]  # a rule's id -> the checks of KernelBench that are about the same
_LEAKS = ("rubric_leak", "reward_hack", "bug")


def validate_kernel_static(
    code: str,
    backend: str = "cuda",
    precision: str = "fp16",
    forbidden: Collection[str] | None = None,
    warnings: Collection[str] | None = None,
    *,
    reference: str | os.PathLike[str] | None = None,
    profile: str = KERNELBENCH.id,
    timeout: float = one_file.DEFAULT_TIMEOUT_S,
) -> tuple[bool, list[str], list[str]]:
    """Whether a kernel's code does what its benchmark takes it for: (valid, errors, warnings), sentences with lines.

    `backend` is one of cuda, hip, triton, thunderkittens, cute, cutlass, tilelang: a kernel in it must take part in the
    result. `precision` is that of the run (fp32, fp16, bf16). `reference` is the problem: the path of its file, or its
    text. Without it shapes and operations are not known, and less can be said. `forbidden` and `warnings` name checks
    whose findings are errors or warnings, and no others count; by default leaks, hacks and bugs are errors and all else
    warnings, also what could not be followed. Nothing of the code is executed.

    Raises UsageError for a backend, precision or profile that is not known, and DataError for malformed data of ours.
    """
    for what, said, known in (("backend", backend, BACKENDS), ("profile", profile, PROFILES)):
        if said not in known:
            raise UsageError(f"there is no {what} {said!r}; known are {', '.join(known)}")
    precision = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}.get(precision.lower(), precision.lower())
    if precision not in PRECISIONS:
        raise UsageError(f"there is no precision {precision!r}; known are {', '.join(PRECISIONS)}")
    text = text_of(Path("solution.py"), code.encode("utf-8", "replace"))
    if not isinstance(text, str):
        return False, [text.message], []
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return False, [f"line {getattr(error, 'lineno', None) or 1}: the code is not Python"], []
    rules = one_file.load_rules_once(str(paths.rules_dir()))
    report, languages = _report(text, rules, reference, profile, precision, timeout)
    theirs = {rule.id: rule.kernelbench for rule in rules}
    errors, milder = _split(report, theirs, forbidden, warnings)
    if forbidden is None and not any("zero-kernel" in f.leak_class for f in report.findings):
        errors += _missing(languages, backend)
    if warnings is None:
        reasons = [unread.reason for unread in report.unread]
        if reference is None:
            reasons = [reason for reason in reasons if not reason.startswith(NOTHING_FOLLOWED)]
            milder.append("no reference was given, so that it was not followed what the kernel computes")
        milder += [f"not followed: {reason}" for reason in reasons]
    return not errors, errors, milder


def _report(
    text: str,
    rules: tuple[Rule, ...],
    reference: str | os.PathLike[str] | None,
    profile: str,
    precision: str,
    timeout: float,
) -> tuple[FileReport, frozenset[str] | None]:
    """The report on a text, and the languages of the kernels that take part; None when that is not known."""
    with TemporaryDirectory(prefix="kbh-") as folder:
        file = _problem(reference, Path(folder))
        main, sidecars, notes = split_bundle(text, "solution.py")
        if file is not None:
            sidecars = with_reference(sidecars, main, file, PROFILES[profile].reference)
        submission = Submission(
            path=Path("solution.py"), text=main, sidecars=sidecars, problem=file.stem if file else None,
            notes=tuple(notes), sha256=hashlib.sha256(main.encode()).hexdigest(),
            problem_file=str(file) if file else None, profile=profile,
            precision=precision if PROFILES[profile].converts else "",
        )  # fmt: skip
        try:
            with time_limit(timeout), fewer_collections():
                analysis = engine.analyse(submission, problems_dir=paths.problems_dir())
        except TimeUp:
            analysis = Analysis(unread=(Unread(f"the analysis did not come to an end within {timeout:g} s"),))
    authored = next((fact for fact in analysis.facts if fact.kind == "authored"), None)
    languages = frozenset(authored.attrs["languages"]) if authored is not None and analysis.contract else None
    return one_file.judge(submission, rules, analysis), languages


def _problem(reference: str | os.PathLike[str] | None, folder: Path) -> Path | None:
    if reference is None:
        return None
    if isinstance(reference, str) and "\n" in reference:
        file = folder / "problem.py"
        file.write_text(reference, encoding="utf-8")
        return file
    if not Path(reference).is_file():
        raise UsageError(f"{reference}: is not a file; reference is the path of a problem, or its text")
    return Path(reference)


def _split(
    report: FileReport, theirs: Theirs, forbidden: Collection[str] | None, warnings: Collection[str] | None
) -> tuple[list[str], list[str]]:
    errors, milder = [], []
    for finding in report.findings:
        if _asked(finding, theirs, forbidden) if forbidden is not None else finding.verdict in _LEAKS:
            errors.append(_sentence(finding))
        elif warnings is None or _asked(finding, theirs, warnings):
            milder.append(_sentence(finding))
    if forbidden is None:
        broken = (promise for promise in report.promises if promise.state == "broken")
        shown = {finding.breaks for finding in report.findings}
        errors += [
            f"the promise {promise.id} is broken" for promise in broken if not errors and promise.id not in shown
        ]
    return list(dict.fromkeys(errors)), list(dict.fromkeys(milder))


def _asked(finding: Finding, theirs: Theirs, checks: Collection[str]) -> bool:
    named = {finding.leak_class, finding.name, *theirs.get(finding.rule, ())}
    return any(name in named or finding.rule.startswith(name) for name in checks)


def _sentence(finding: Finding) -> str:
    return f"line {finding.span.line}: {finding.message} ({finding.rule} {finding.leak_class})"


def _missing(languages: frozenset[str] | None, backend: str) -> Iterator[str]:
    """What is wrong with the languages of the kernels, where these are known."""
    if languages is not None and not languages & frozenset(BACKENDS[backend]):
        there = f"; it comes from kernels in {', '.join(sorted(languages))}" if languages else ""
        yield f"no {backend} kernel takes part in the result{there}"
