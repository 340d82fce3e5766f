"""Packages of kernel languages without a front end are known by their whole names."""

from __future__ import annotations

import pytest

from kbh_lint import registry
from kbh_lint.host.effects.foreign import is_unread_language, unread_languages


@pytest.mark.parametrize("package", unread_languages())
def test_a_package_and_what_is_in_it_is_of_the_language(package: str) -> None:
    assert is_unread_language(package)
    assert is_unread_language(f"{package}.kernel")


@pytest.mark.parametrize(
    "path", ["warpctc.loss", "numbaextras.jit", "tvmlike", "jax.numpy.dot", "triton.experimentally", "torch"]
)
def test_a_package_whose_name_begins_alike_is_another(path: str) -> None:
    assert not is_unread_language(path)


def test_a_language_that_has_a_row_is_read_and_its_package_taken_out() -> None:
    row = registry.Language("helion", "helion.kernel", ("helion",), "no.folder")
    registry.register(row)
    try:
        assert not is_unread_language("helion.kernel") and "helion" not in unread_languages()
        assert is_unread_language("tvm.tir") and is_unread_language("triton.experimental.other")
    finally:
        registry.forget(row)
    assert is_unread_language("helion.kernel")
