"""Inside `host` and `kernels` of kbh_lint, and `grader`, imports go one way: a package needs what stands before it.

What is imported under `if TYPE_CHECKING` is for annotations, does not run, and does not count.
"""

from __future__ import annotations

import code_measures
import pytest

# The lowest first. A name that is no folder is a module.
ORDER = {
    "kbh_lint/host": (
        "interpreted",
        "values",
        "torch",
        "datamodel",
        "effects",
        "python",
        "gpu",
        "cpp",
        "libs",
        "recorder",
        "run",
        "explore",
    ),
    "kbh_lint/kernels": ("core", "languages", "extents", "numeric", "analyze"),
    "kbh_lint/kernels/languages": ("ptx", "cuda", "python"),
    "grader": (
        "wire",
        "candidate",
        "record",
        "deck",
        "sandbox",
        "judge",
        "score",
        "silicon",
        "report",
        "grading",
        "authoring",
        "cli",
        "structure",
        "precision",
        "mutation",
    ),
}


def part_of(root: str, module: str) -> str | None:
    """The package inside `root` that a module belongs to; None for one elsewhere, and for the `__init__` of all."""
    dotted = root.replace("/", ".") + "."
    if not module.startswith(dotted):
        return None
    return module.removeprefix(dotted).split(".")[0]


@pytest.mark.parametrize("root", ORDER)
def test_every_module_stands_in_a_package_with_a_place_in_the_order(root: str) -> None:
    parts = {part_of(root, code_measures.module_name(path)) for path in code_measures.files(root)}
    assert parts - {None} == set(ORDER[root])


@pytest.mark.parametrize("root", ORDER)
def test_no_package_imports_one_that_stands_above_it(root: str) -> None:
    rank = {part: place for place, part in enumerate(ORDER[root])}
    wrong = []
    for found in code_measures.imports(root):
        lower, upper = part_of(root, found.importer), part_of(root, found.imported)
        if lower is not None and upper is not None and not found.typing and rank[upper] > rank[lower]:
            wrong.append(f"{found.importer}:{found.line} imports {found.imported}")
    assert wrong == []


def test_only_the_run_is_named_by_what_stands_below_it_and_only_in_annotations() -> None:
    """`Run` is the one class that all of the host is given; every other name comes from below."""
    root = "kbh_lint/host"
    rank = {part: place for place, part in enumerate(ORDER[root])}
    upward = {
        found.imported
        for found in code_measures.imports(root)
        if found.typing
        and (lower := part_of(root, found.importer)) is not None
        and (upper := part_of(root, found.imported)) is not None
        and rank[upper] > rank[lower]
    }
    assert upward <= {"kbh_lint.host.run", "kbh_lint.host.effects.artifacts"}


def test_a_kernel_language_is_found_by_its_row_and_imported_by_nothing_outside_the_languages() -> None:
    outside = [
        f"{found.importer}:{found.line} imports {found.imported}"
        for found in code_measures.imports("kbh_lint")
        if found.imported.startswith("kbh_lint.dsl.") and not found.importer.startswith("kbh_lint.dsl.")
    ]
    assert outside == []


@pytest.mark.parametrize("package", code_measures.PACKAGES)
def test_modules_need_each_other_one_way(package: str) -> None:
    """Imports in functions count."""
    assert code_measures.circles(package) == []
