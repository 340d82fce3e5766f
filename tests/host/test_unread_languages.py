"""Packages of kernel languages without a front end are known by their whole names."""

from __future__ import annotations

import pytest

from kbh_lint.host.effects.foreign import UNREAD_LANGUAGES, is_unread_language


@pytest.mark.parametrize("package", UNREAD_LANGUAGES)
def test_a_package_and_what_is_in_it_is_of_the_language(package: str) -> None:
    assert is_unread_language(package)
    assert is_unread_language(f"{package}.kernel")


@pytest.mark.parametrize(
    "path", ["warpctc.loss", "numbaextras.jit", "tvmlike", "jax.numpy.dot", "triton.experimentally", "torch"]
)
def test_a_package_whose_name_begins_alike_is_another(path: str) -> None:
    assert not is_unread_language(path)
