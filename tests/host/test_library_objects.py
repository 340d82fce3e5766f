"""What a library makes is of the class that says what it is, by whichever way it is made."""

from __future__ import annotations

import pytest

from kbh_lint.host.values import cpp_objects, named_objects
from kbh_lint.host.values.objects import LibObject, kind_of, of_paths


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("torch.device", named_objects.Device),
        ("torch.cuda.Event", named_objects.GpuEvent),
        ("torch.Event", named_objects.GpuEvent),
        ("types.SimpleNamespace", named_objects.Namespace),
        ("dim3", cpp_objects.Dim3),
    ],
)
def test_an_object_is_of_the_class_of_its_path(path: str, kind: type[LibObject]) -> None:
    made = LibObject.by_path(path, {"x": 1}, (2,), {"y": 3})
    assert type(made) is kind
    assert (made.path, made.attrs, made.args, made.kwargs) == (path, {"x": 1}, (2,), {"y": 3})


def test_a_path_without_a_class_gives_a_plain_object() -> None:
    assert type(LibObject.by_path("threading.Lock")) is LibObject


def test_objects_do_not_share_their_attributes() -> None:
    one, other = LibObject.by_path("torch.device"), LibObject.by_path("torch.device")
    one.attrs["index"] = 1
    assert other.attrs == {}


def test_reports_call_all_of_them_by_one_name() -> None:
    assert kind_of(LibObject.by_path("torch.device")) == kind_of(LibObject("anything"))


def test_a_path_has_one_class() -> None:
    @of_paths("tests.once")
    class Once(LibObject):
        """An object of a made-up library."""

    assert type(LibObject.by_path("tests.once")) is Once
    with pytest.raises(ValueError, match=r"tests\.once"):
        of_paths("tests.once")(LibObject)
