"""A sweep that is killed at random, on the local pool and on a Ray cluster of three nodes: are both archives equal?

    python bench/sweep.py                                       108 cells: 4 models x 9 small problems x 3 trials
    python bench/sweep.py --deck project                        108 cells of the deck's nine problems, a shape of each
    python bench/sweep.py --deck project --every-shape          with all of their shapes; hours on two cores
    python bench/sweep.py --ways local --problems 1 --trials 1 --kills 1

The models are scripts that the agent `mini` plays: `honest` writes a right kernel, `leaking` one that hands its work to
a library, `flaky` a right or a wrong one by chance, `failing` a wrong one. A kill is SIGKILL: of `kbh sweep`, and on
the cluster also of a node with all that it runs (never the one that holds the cluster together, without which there is
none). The same command is then given again. Checked at the end: every cell of the plan is in each archive once, both
archives have the same keys, and for all models but `flaky` the same outcome, verdict and solution; `kbh verify` finds
both whole. Exit status 1 where something is otherwise.

The cluster needs Ray (pip install '.[cluster]'), and runs in a network namespace with only a loopback, with a home of
its own: nothing outside can reach it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from harness.archive import Archive, Facts, all_facts  # noqa: E402
from harness.record.archive import RunFolder, is_run  # noqa: E402
from harness.sweep.ledger import is_lost  # noqa: E402
from kbh_lint.problems import load_problem  # noqa: E402

SWEEP = "from harness.sweep.cli import main; import sys; raise SystemExit(main(sys.argv[1:]))"
INSIDE = "KBH_BENCH_SWEEP_INSIDE"
MODELS = ("honest", "leaking", "flaky", "failing")
CHANCE = ("flaky",)
NODES = 3
TOY = ROOT / "examples" / "toy"
KERNEL = (TOY / "kernel.py").read_text()
WRONG = KERNEL.replace("total, 0.0)", "total, 1.0)")
FLIP = """\
python3 - <<'PY'
import os, shutil
shutil.copy("wrong.py" if os.urandom(1)[0] % 2 else "right.py", "solution.py")
PY
"""


# --- what is swept ------------------------------------------------------------------------------------------


def small_deck(folder: Path, count: int) -> tuple[Path, list[str]]:
    """So many small problems, each a product with sizes of its own; the folder, and their ids."""
    names = [f"{number:02d}_rows" for number in range(1, count + 1)]
    for number, name in enumerate(names, 1):
        here = folder / name
        here.mkdir(parents=True)
        for file in ("reference.py", "cases.py", "prompt.in.md"):
            shutil.copy(TOY / file, here)
        text = (TOY / "problem.yaml").read_text()
        for old, new in (("id: toy", f"id: {name}"), ("N: 16", f"N: {8 + number}"), ("K: 6", f"K: {5 + number}")):
            assert text.count(old) == 1
            text = text.replace(old, new)
        (here / "problem.yaml").write_text(text)
    return folder, names


def project_deck(folder: Path, problems: Sequence[str], every_shape: bool) -> Path:
    """The deck's own problems, each with its first shape alone and those that its promises name; the folder."""
    folder.mkdir()
    shutil.copy(ROOT / "problems" / "hardware.yaml", folder)
    for name in problems:
        here = folder / name
        shutil.copytree(
            ROOT / "problems" / name, here, ignore=shutil.ignore_patterns("honest", "decoys", "__pycache__")
        )
        if not every_shape:
            first_shapes(here / "problem.yaml")
    return folder


def first_shapes(file: Path) -> None:
    """Leaves a problem the first of its shapes, and those whose labels stand somewhere else in it."""
    data = yaml.safe_load(file.read_text())
    others = json.dumps({key: value for key, value in data.items() if key not in ("shapes", "reduced")})
    labels = [shape.label for shape in load_problem(file).shapes]
    kept = [number for number, label in enumerate(labels) if not number or label in others]
    for key in ("shapes", "reduced"):
        data[key] = [data[key][number] for number in kept]
    for number, label in enumerate(labels[at] for at in kept):
        data["shapes"][number].setdefault("label", label)
    file.write_text(yaml.safe_dump(data, sort_keys=False))


def small_solutions(problem: str) -> dict[str, str]:
    """A right kernel, a leak and a wrong kernel."""
    leak = (TOY / "reference.py").read_text().partition("\n\ndef oracle")[0]
    return {"right": KERNEL, "leak": leak, "wrong": WRONG}


def deck_solutions(problem: str) -> dict[str, str]:
    """The same of a problem of the deck: its honest kernel, its first decoy, and a module that cannot be made."""
    here = ROOT / "problems" / problem
    decoy = min((here / "decoys").glob("*.py"))
    wrong = (
        "from torch import nn\n\n\nclass Model(nn.Module):\n    def __init__(self, *sizes):\n        raise ValueError\n"
    )
    return {"right": (here / "honest" / "triton.py").read_text(), "leak": decoy.read_text(), "wrong": wrong}


def deck_problems() -> list[str]:
    """The problems of the deck that have an honest kernel which runs without a GPU."""
    return sorted(path.parents[1].name for path in (ROOT / "problems").glob("*/honest/triton.py"))


def write_scripts(folder: Path, problems: Sequence[str], solutions: Callable[[str], dict[str, str]]) -> None:
    """A script for each model and problem."""
    folder.mkdir()
    for problem in problems:
        texts = solutions(problem)
        one = {"honest": "right", "leaking": "leak", "failing": "wrong"}
        for model in MODELS:
            if model in one:
                turns: list[dict[str, Any]] = [{"write": {"path": "solution.py", "content": texts[one[model]]}}]
            else:
                both = [{"path": f"{name}.py", "content": texts[name]} for name in ("right", "wrong")]
                turns = [{"write": both}, {"shell": FLIP}]
            data = {"turns": [*turns, {"text": "Done.", "end": True}]}
            (folder / f"{model}-{problem}.yaml").write_text(yaml.safe_dump(data))


def write_matrix(folder: Path, models: Sequence[str], problems: Sequence[str], args: argparse.Namespace) -> Path:
    """The matrix of all this."""
    data = {
        "name": "bench",
        "agents": ["mini"],
        "models": [{"name": f"scripted/{model}", "script": f"scripts/{model}-{{problem}}.yaml"} for model in models],
        "problems": list(problems), "targets": ["cpu"], "trials": args.trials, "budget": args.budget,
        "grading": {"samples": 3, "evidence": args.deck == "project"},
    }  # fmt: skip
    file = folder / "matrix.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return file


# --- sweeping and killing ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Way:
    """One sweep: what was killed, and what came of it."""

    name: str
    out: Path
    seconds: float = 0.0
    commands: int = 0
    kills: list[str] = field(default_factory=list)
    code: int | None = None

    @property
    def archive(self) -> Archive:
        """Its archive."""
        return Archive.open(self.out / "archive")

    def lost(self) -> int:
        """Runs that a kill took with it while their agents worked."""
        runs = (RunFolder(path).load() for path in (self.out / "runs").iterdir() if is_run(path))
        return sum(is_lost(record) for record in runs)

    def settled(self) -> int:
        """Cells that are in the archive by now."""
        folder = self.out / "archive" / "manifests"
        return sum(1 for _ in folder.glob("*/*")) if folder.is_dir() else 0


def sweep(
    way: Way, words: Sequence[str], kills: int, cells: int, chance: random.Random, node: Callable[[], None] | None
) -> None:
    """Gives the same command until it ends by itself, and kills something at `kills` moments before that.

    The moments are numbers of settled cells, drawn at random, so that a slow machine does not run out of kills.
    """
    began = time.monotonic()
    moments = sorted(chance.sample(range(max(cells - 1, kills)), kills))
    log = (way.out.parent / f"{way.name}.log").open("ab")
    process = start(way, words, log)
    while True:
        code = process.poll()
        if code is not None:
            if code < 0:
                raise SystemExit(f"{way.name}: kbh sweep was killed by somebody else (signal {-code}); see {log.name}")
            way.code = code
            break
        if moments and way.settled() >= moments[0]:
            moments.pop(0)
            time.sleep(chance.uniform(0.0, 3.0))
            if node is not None and len(way.kills) % 2:
                node()
                way.kills.append("node")
            else:
                process.kill()
                process.wait()
                way.kills.append("command")
                process = start(way, words, log)
        time.sleep(0.2)
    way.seconds = time.monotonic() - began
    log.close()


def start(way: Way, words: Sequence[str], log: Any) -> subprocess.Popen[bytes]:
    """`kbh sweep`, as a person would give it."""
    way.commands += 1
    return subprocess.Popen([sys.executable, "-c", SWEEP, *words], stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def on_this_machine(
    way: Way, words: Sequence[str], args: argparse.Namespace, cells: int, chance: random.Random
) -> None:
    """The local pool."""
    sweep(way, [*words, "--jobs", str(args.jobs)], args.kills, cells, chance, None)


def on_a_cluster(way: Way, words: Sequence[str], args: argparse.Namespace, cells: int, chance: random.Random) -> None:
    """Three nodes of one machine; a node that is killed comes back, as another one."""
    from ray.cluster_utils import Cluster

    room = {"include_dashboard": False, "object_store_memory": 80 << 20, "num_cpus": 1}
    cluster = Cluster(initialize_head=True, head_node_args={**room, "resources": {"kbh-cpu": 1}})
    nodes = [cluster.add_node(**room, resources={"kbh-cpu": 1}) for _ in range(NODES - 1)]
    cluster.wait_for_nodes()

    def kill_a_node() -> None:
        cluster.remove_node(nodes.pop(chance.randrange(len(nodes))), allow_graceful=False)
        nodes.append(cluster.add_node(**room, resources={"kbh-cpu": 1}))

    try:
        sweep(way, [*words, "--cluster", cluster.address], args.kills, cells, chance, kill_a_node)
    finally:
        cluster.shutdown()


# --- what came of it -----------------------------------------------------------------------------------------


def content(facts: Facts) -> tuple[str, ...]:
    """What a second run of a cell must have too, where nothing is left to chance."""
    return facts.outcome, facts.ending, facts.grade, facts.verdict, facts.solution


def by_key(way: Way, wanted: set[str], faults: list[str]) -> dict[str, Facts]:
    """The entries of an archive by their cells' keys; what is lost or there twice is among the faults."""
    found = all_facts(way.archive, keep=False)
    faults += [f"{way.name}: {fault}" for fault in found.faults]
    counts = Counter(one.sweep_key for one in found.facts)
    faults += [f"{way.name}: {count} entries for the cell {key[:12]}" for key, count in counts.items() if count != 1]
    if missing := wanted - set(counts):
        faults.append(f"{way.name}: {len(missing)} cells are lost")
    if more := set(counts) - wanted:
        faults.append(f"{way.name}: {len(more)} entries are of no cell")
    return {one.sweep_key: one for one in found.facts}


def report(ways: Sequence[Way], wanted: set[str]) -> list[str]:
    """Prints what came of each way; gives what is not as it must be."""
    faults: list[str] = []
    tables = [by_key(way, wanted, faults) for way in ways]
    for way, table in zip(ways, tables, strict=True):
        counts = Counter((one.model.removeprefix("scripted/"), one.outcome) for one in table.values())
        told = ", ".join(f"{model} {outcome} {count}" for (model, outcome), count in sorted(counts.items()))
        killed = ", ".join(f"{count} times a {what}" for what, count in Counter(way.kills).items()) or "nothing"
        print(f"{way.name}: {len(table)} of {len(wanted)} cells in {way.seconds:.0f} s, {way.commands} commands, "
              f"exit code {way.code}; killed: {killed}; {way.lost()} runs lost on the way")  # fmt: skip
        print(f"  {told}")
        if way.code not in (0, 1):
            faults.append(f"{way.name}: kbh sweep ended with {way.code}")
        whole = subprocess.run(
            [sys.executable, "-c", SWEEP.replace("sweep.cli", "archive.verify_cli"), str(way.archive.folder)],
            capture_output=True, text=True,
        )  # fmt: skip
        print(f"  kbh verify: {(whole.stdout.strip() or whole.stderr.strip()).splitlines()[-1]}")
        if whole.returncode:
            faults.append(f"{way.name}: kbh verify finds the archive damaged")
    for one, other in zip(tables, tables[1:], strict=False):
        same = set(one) == set(other)
        sure = [key for key in set(one) & set(other) if one[key].model.removeprefix("scripted/") not in CHANCE]
        differ = [key for key in sure if content(one[key]) != content(other[key])]
        print(f"the archives have {'the same' if same else 'OTHER'} {len(one)} keys; of {len(sure)} cells without "
              f"chance {len(sure) - len(differ)} have the same outcome, verdict and solution")  # fmt: skip
        faults += [] if same else ["the archives have other keys"]
        faults += [f"{one[key].model} on {one[key].problem} differs: {content(one[key])} and {content(other[key])}"
                   for key in differ]  # fmt: skip
    return faults


def parser() -> argparse.ArgumentParser:
    """The options."""
    ask = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    ask.add_argument("--ways", default="local,ray", help="local, ray, or both (default)")
    ask.add_argument("--deck", choices=("small", "project"), default="small")
    ask.add_argument("--every-shape", action="store_true", help="of the project's problems; takes five times as long")
    ask.add_argument("--problems", type=int, default=9)
    ask.add_argument("--trials", type=int, default=3)
    ask.add_argument("--models", default=",".join(MODELS), help="of the four (default: all)")
    ask.add_argument("--kills", type=int, default=5)
    ask.add_argument("--jobs", type=int, default=3, help="cells at a time in the local pool (default: 3)")
    ask.add_argument("--budget", default="5m", help="of one agent (default: 5m)")
    ask.add_argument("--seed", type=int, default=21, help="of the moments of the kills")
    ask.add_argument("--keep", type=Path, help="work in this folder, which must be new, and leave it")
    return ask


def main(argv: Sequence[str] | None = None) -> int:
    """Makes the sweeps; 0 where both archives are as they must be."""
    args = parser().parse_args(argv)
    if "ray" in args.ways and INSIDE not in os.environ:
        return apart(sys.argv[1:] if argv is None else argv)
    folder = Path(args.keep or tempfile.mkdtemp(prefix="kbh-sweep-"))
    folder.mkdir(exist_ok=True)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    os.environ.setdefault("KBH_LOCK_DIR", str(folder))
    try:
        faults = compared(args, folder)
    finally:
        if args.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    for fault in faults:
        print(f"WRONG: {fault}")
    return 1 if faults else 0


def compared(args: argparse.Namespace, folder: Path) -> list[str]:
    """Sweeps in every way and compares; what is not as it must be."""
    if args.deck == "small":
        problems_dir, problems = small_deck(folder / "deck", args.problems)
        solutions = small_solutions
    else:
        problems, solutions = deck_problems()[: args.problems], deck_solutions
        problems_dir = project_deck(folder / "deck", problems, args.every_shape)
    models = [model for model in MODELS if model in args.models.split(",")]
    write_scripts(folder / "scripts", problems, solutions)
    matrix = write_matrix(folder, models, problems, args)
    base = [str(matrix), "--problems-dir", str(problems_dir)]
    names = args.ways.split(",")
    ways = []
    wanted: set[str] = set()
    for name in names:
        way = Way(name, folder / name)
        words = [*base, "--out", str(way.out)]
        keys = planned([*words])
        wanted = wanted or keys
        print(f"{name}: {len(keys)} cells = {len(models)} models x {len(problems)} problems x {args.trials} trials")
        {"local": on_this_machine, "ray": on_a_cluster}[name](way, words, args, len(keys), random.Random(args.seed))
        ways.append(way)
    return report(ways, wanted)


def planned(words: Sequence[str]) -> set[str]:
    """The keys of the cells that a command is for."""
    done = subprocess.run(
        [sys.executable, "-c", SWEEP, *words, "--dry-run", "--format", "json"], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return set(json.loads(done.stdout)["keys"])


def apart(argv: Sequence[str]) -> int:
    """This command again in a network namespace of its own, in which there is a loopback and nothing else."""
    with tempfile.TemporaryDirectory(prefix="kbh-home-") as home:
        env = {
            **os.environ,
            INSIDE: "1",
            "HOME": home,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_DISABLE_IMPORT_WARNING": "1",
        }
        mine = [] if os.geteuid() == 0 else ["--map-root-user"]
        told = ["unshare", "--net", *mine, "sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, __file__]
        process = subprocess.Popen([*told, *argv], env=env)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: process.terminate())
        return process.wait()


if __name__ == "__main__":
    sys.exit(main())
