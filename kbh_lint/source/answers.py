"""Which problem file an answer belongs to: one for all, one of a folder by its name, or what a manifest says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from kbh_lint.base.records import dataclass
from kbh_lint.marked import Fields, load
from kbh_lint.source.profiles import KERNELBENCH, Profile

MAX_PROBLEMS = 20_000
MAX_BYTES = 1_000_000
MAX_DEPTH = 6
MANIFESTS = (".yaml", ".yml", ".json")
_PROBLEM = re.compile(r"^(?:class[ \t]+Model\b|def[ \t]+get_inputs\b)", re.M)
_FIELD = re.compile(r"\{(\w+)\}|(\*)")
# Names that benchmarks give to answers, and where their problems lie. Without any, a folder or a file of the answer's
# path that is named for a problem.
KNOWN = (
    "level_{level}_problem_{number}_sample_{sample}_kernel.py=level{level}/{number}_*.py",
    "level{level}/{number}/*=level{level}/{number}_*.py",
    "level{level}_{number}/*=level{level}/{number}_*.py",
    "level_{level}/problem_{number}/*=level{level}/{number}_*.py",
)


class AnswersError(Exception):
    """Problems, or a pattern of names, that cannot be used; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One pattern: where an answer's path ends as `answer` says, its problem is what `problem` names in the folder."""

    answer: re.Pattern[str]
    problem: str

    @classmethod
    def of(cls, text: str) -> Rule:
        """Parses `ANSWER=PROBLEM`: `{name}` stands for words of letters, digits and `-` with `_` between, `*` for
        anything in one name. Raises AnswersError."""
        answer, equals, problem = text.partition("=")
        names = [found[1] for found in _FIELD.finditer(answer) if found[1]]
        unknown = [found[1] for found in _FIELD.finditer(problem) if found[1] and found[1] not in names]
        if not equals or not answer or not problem or unknown or len(names) != len(set(names)):
            raise AnswersError(
                f"{text!r} is no pattern ANSWER=PROBLEM, such as 'runs/{{name}}_*.py={{name}}.py', with each name once "
                "in ANSWER"
            )
        pattern = ""
        end = 0
        for found in _FIELD.finditer(answer):
            pattern += re.escape(answer[end : found.start()])
            pattern += f"(?P<{found[1]}>[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*?)" if found[1] else "[^/]*"
            end = found.end()
        return cls(re.compile(rf"(?:.*/)?{pattern}{re.escape(answer[end:])}"), problem)

    def wanted(self, path: str) -> str | None:
        """The pattern of the problem file's path that belongs to the answer at `path`; None where the rule does not
        fit it."""
        found = self.answer.fullmatch(path)
        if found is None:
            return None
        return _FIELD.sub(lambda field: found[field[1]] if field[1] else "*", self.problem)


@dataclass(frozen=True)
class ProblemFiles:
    """The problem files that answers belong to, and how their benchmark runs answers.

    Either `one` for all answers, or `files` by their paths under a folder, or `listed`: patterns of answers' paths with
    the problem of each, from a manifest. `precision` is what the benchmark converts inputs and weights to, if anything.
    """

    profile: Profile = KERNELBENCH
    precision: str = ""
    one: Path | None = None
    files: Mapping[str, Path] = field(default_factory=dict)
    listed: Sequence[tuple[str, Path]] = ()
    rules: Sequence[Rule] = ()
    place: str = ""

    @classmethod
    def read(cls, place: Path, match: Sequence[str], profile: Profile, precision: str) -> ProblemFiles:
        """Reads a folder of problems or a manifest. Raises AnswersError, and DataError for a malformed manifest."""
        rules = [Rule.of(text) for text in (*match, *KNOWN)]
        if place.is_dir():
            files = dict(_problems(place))
            if not files:
                raise AnswersError(f"{place} holds no problem: no NAME.py with a class Model and a function get_inputs")
            return cls(profile, precision, files=files, rules=rules, place=str(place))
        if not place.is_file() or place.suffix not in MANIFESTS:
            raise AnswersError(f"{place} is neither a folder of problems nor a manifest NAME.yaml or NAME.json")
        if match:
            raise AnswersError("a manifest names the problem of each answer; a pattern of names is for a folder")
        return cls(profile, precision, listed=_manifest(place), place=str(place))

    def file_for(self, path: Path) -> tuple[Path | None, str]:
        """The problem file of the answer at `path`, with the words that say where it was found, or None with why
        there is none."""
        if self.one is not None:
            return self.one, "--problem-file"
        text = Path(os.path.abspath(path)).as_posix()
        if self.listed:
            for pattern, file in self.listed:
                if fnmatchcase(text, f"*/{pattern}"):
                    return file, Path(self.place).name
            return None, f"{Path(self.place).name} names no problem for it"
        for rule in self.rules:
            wanted = rule.wanted(text)
            found = [] if wanted is None else self._matching(wanted)
            if len(found) == 1:
                return found[0], "its name"
            if len(found) > 1:
                names = ", ".join(sorted(file.name for file in found)[:3])
                return None, f"its name fits {len(found)} problems of {self.place} ({names}); see --match"
        for part in (path.stem, *(parent.name for parent in list(Path(text).parents)[:4])):
            named = self._stems.get(part) or self._in(part)
            if named is not None:
                return named, "its name"
        return None, f"nothing in its name says which problem of {self.place} it answers; see --match"

    def _matching(self, wanted: str) -> list[Path]:
        exact = self.files.get(wanted)
        if exact is not None:
            return [exact]
        return [file for key, file in self.files.items() if fnmatchcase(f"/{key}", f"*/{wanted}")]

    @cached_property
    def _stems(self) -> dict[str, Path]:
        """Problems by their names, those of one name left out."""
        found: dict[str, list[Path]] = {}
        for file in self.files.values():
            found.setdefault(file.stem, []).append(file)
        return {stem: files[0] for stem, files in found.items() if len(files) == 1}

    def _in(self, name: str) -> Path | None:
        """The problem with the longest name that stands in a name with no letter or digit right before or after it."""
        found = self._words.findall(name)
        return self._stems[max(found, key=len)] if found else None

    @cached_property
    def _words(self) -> re.Pattern[str]:
        longest = sorted((stem for stem in self._stems if len(stem) > 3), key=lambda stem: (-len(stem), stem))
        return re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, longest)) or '(?!)'})(?![A-Za-z0-9])")


def _problems(top: Path) -> Iterator[tuple[str, Path]]:
    """The problem files below a folder by their paths in it, links not followed."""
    count = 0
    for folder, below, names in os.walk(top):
        below[:] = sorted(name for name in below if not name.startswith((".", "__")))
        if len(Path(folder).relative_to(top).parts) >= MAX_DEPTH:
            below.clear()
        for name in sorted(names):
            path = Path(folder, name)
            if not name.endswith(".py") or path.is_symlink():
                continue
            count += 1
            if count > MAX_PROBLEMS:
                raise AnswersError(f"{top} holds more than {MAX_PROBLEMS:,} files; name a folder in it")
            if _is_problem(path):
                yield path.relative_to(top).as_posix(), path


def _is_problem(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return False
    return len(set(_PROBLEM.findall(text))) == 2


def _manifest(path: Path) -> list[tuple[str, Path]]:
    """The lines `ANSWER: PROBLEM` of a manifest; problems are found beside it."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise AnswersError(f"{path} is larger than {MAX_BYTES // 1_000_000} MB")
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise AnswersError(f"{path} cannot be read as text") from None
    fields = Fields(load(text, str(path)), str(path), "the manifest")
    listed = []
    for answer in fields.data:
        problem = path.parent / fields.text(str(answer), "")
        if problem.suffix not in (".py", ".yaml") or not problem.is_file():
            raise AnswersError(f"{path}: the problem of {answer}, {problem}, is no file NAME.py or NAME.yaml")
        listed.append((str(answer).removeprefix("./"), problem))
    fields.done()
    if not listed:
        raise AnswersError(f"{path} names no answer")
    return listed
