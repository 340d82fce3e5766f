"""The machine's GPU, as far as it can be told without torch or a driver's library: its target, UUID and device."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from harness.running.request import RunError
from kbh_lint.problems import find_target, load_targets

__all__ = ["Here", "here"]

DRIVER = Path("/proc/driver/nvidia/gpus")
CPU = "cpu"
_FIELD = re.compile(r"^([A-Za-z ]+):[ \t]*(\S.*?)[ \t]*$", re.M)


@dataclass(frozen=True, slots=True)
class Here:
    """What runs and gradings are for: `target` by its id ("cpu" without a GPU), `gpus` the UUIDs of those here."""

    target: str
    gpus: tuple[str, ...] = ()


def here(wanted: str, hardware: Path, driver: Path = DRIVER) -> Here:
    """The GPU of this machine, or its CPU, held against what is `wanted` ("auto", "cpu", or a GPU's name).

    Raises RunError where that is another one, and ProblemError for a hardware file that cannot be read.
    """
    if wanted == CPU:
        return Here(CPU)
    targets = load_targets(hardware)
    named = None if wanted == "auto" else find_target(targets, wanted)
    if wanted != "auto" and named is None:
        raise RunError(f"there is no target `{wanted}`; there are {', '.join(targets)} and cpu")
    found = _gpus(driver)
    if not found:
        if named is not None:
            raise RunError(f"there is no GPU on this machine, so nothing can run on {named.id}; --target cpu can")
        return Here(CPU)
    known = [(target, uuid) for model, uuid in found if (target := find_target(targets, model)) is not None]
    wanted_id = named.id if named is not None else known[0][0].id if known else ""
    fitting = tuple(uuid for target, uuid in known if target.id == wanted_id)
    if fitting:
        return Here(wanted_id, fitting)
    models = ", ".join(dict.fromkeys(model for model, _ in found))
    if named is not None:
        raise RunError(f"this machine has {models}, not {named.id}")
    raise RunError(
        f"{models} is not among the targets ({', '.join(targets)}); add it to {hardware}, or use --target cpu"
    )


def _gpus(driver: Path) -> list[tuple[str, str]]:
    """(model, UUID) of each GPU that the driver lists."""
    found = []
    for file in sorted(driver.glob("*/information")) if driver.is_dir() else ():
        try:
            fields = dict(_FIELD.findall(file.read_text(encoding="utf-8", errors="replace")[:4000]))
        except OSError:
            continue
        if "GPU UUID" in fields:
            found.append((fields.get("Model", "a GPU"), fields["GPU UUID"]))
    return found
