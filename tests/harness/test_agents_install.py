"""Installing CLIs with the real npm from a registry on loopback, and what is said where that fails."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from npm_registry import NAME, VERSION, Registry, registry

from harness.agents import cli
from harness.agents import registry as agents
from harness.agents.base import Adapter, Package
from harness.agents.command import ADAPTER as COMMAND
from harness.agents.doctor import examine
from harness.agents.install import RECORD, InstallError, agents_folder, install, install_package, installed

FAKE = Package(NAME, VERSION, 0, f"node_modules/{NAME}/agent")
NPM = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not on this machine")


def adapter_of(package: Package) -> Adapter:
    """The command adapter, as if it were a CLI from npm."""
    made = type(COMMAND)()
    made.name, made.package = "fake", package
    return made


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """The registry, as the one that npm asks, and a cache of its own."""
    with registry() as state:
        monkeypatch.setenv("npm_config_registry", state.url)
        monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
        yield state


@NPM
def test_a_cli_is_installed_with_a_record_and_without_running_its_scripts(tmp_path: Path, served: Registry) -> None:
    there = install(adapter_of(FAKE), tmp_path / "agents")
    package = there.folder / "node_modules" / NAME
    assert there.folder == tmp_path / "agents" / "fake" / VERSION
    assert os.access(there.folder / FAKE.command, os.X_OK)
    assert not (package / "was-run").exists()
    assert there.record.packages[f"node_modules/{NAME}"].startswith(f"{VERSION} sha512-")
    assert json.loads((there.folder / RECORD).read_bytes())["tree"] == there.record.tree
    assert examine(adapter_of(FAKE), tmp_path / "agents").trouble == ""
    assert install(adapter_of(FAKE), tmp_path / "agents") == there and served.fetched == 1
    assert sorted(path.name for path in (tmp_path / "agents").iterdir()) == [".lock-fake", "fake"]


@NPM
def test_a_file_that_was_changed_is_found(tmp_path: Path, served: Registry) -> None:
    adapter = adapter_of(FAKE)
    there = install(adapter, tmp_path)
    program = there.folder / FAKE.command
    program.write_text(program.read_text().replace("echo", "ECHO"))
    assert "are not those that were installed" in examine(adapter, tmp_path).trouble
    program.write_text("#!/bin/sh\n")
    with pytest.raises(InstallError, match="was changed after it was installed; remove it and run"):
        installed(adapter, tmp_path)
    assert install(adapter, tmp_path).record.tree == there.record.tree  # again, as it was
    (there.folder / RECORD).write_text("{}")
    assert "is not installed" in examine(adapter, tmp_path).trouble


@NPM
def test_a_program_that_says_another_version_is_found(tmp_path: Path, served: Registry) -> None:
    package = replace(FAKE, command=f"node_modules/{NAME}/setup.cjs")
    install(adapter_of(package), tmp_path)
    assert "--version says" in examine(adapter_of(package), tmp_path).trouble


@NPM
def test_an_offline_machine_is_told_in_one_sentence(tmp_path: Path, served: Registry,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9")
    with pytest.raises(InstallError, match="the package registry cannot be reached, so kbh-fake-agent@1.2.3 was not"):
        install(adapter_of(FAKE), tmp_path / "agents")
    assert [path.name for path in (tmp_path / "agents").iterdir()] == [".lock-fake"]


@NPM
@pytest.mark.parametrize("package", [replace(FAKE, version="9.9.9"), replace(FAKE, name="kbh-no-such")])
def test_a_package_that_the_registry_lacks_is_said(tmp_path: Path, served: Registry, package: Package) -> None:
    with pytest.raises(InstallError, match="the package registry has no"):
        install(adapter_of(package), tmp_path)


@NPM
def test_a_package_without_its_program_is_not_installed(tmp_path: Path, served: Registry) -> None:
    with pytest.raises(InstallError, match="has no node_modules/kbh-fake-agent/other"):
        install(adapter_of(replace(FAKE, command=f"node_modules/{NAME}/other")), tmp_path)
    assert not (tmp_path / "fake").exists()


@NPM
def test_only_scripts_that_an_adapter_declares_are_run(tmp_path: Path, served: Registry) -> None:
    node = Path(shutil.which("node") or "")
    package = tmp_path / "fake" / VERSION / "node_modules" / NAME
    broken = replace(FAKE, sets_up=(f"node_modules/{NAME}/broken.cjs",))
    with pytest.raises(InstallError, match="broken.cjs did not set its package up"):
        install_package(tmp_path, "fake", broken, node=node)
    assert not package.exists()
    install_package(tmp_path, "fake", replace(FAKE, sets_up=(f"node_modules/{NAME}/setup.cjs",)), node=node)
    assert (package / "was-set-up").exists() and not (package / "was-run").exists()


@NPM
def test_two_installations_at_once_make_one(tmp_path: Path, served: Registry) -> None:
    served.held.clear()
    said: list[str] = []
    waits = threading.Event()

    def show(text: str) -> None:
        said.append(text)
        if "waiting" in text:
            waits.set()
            served.held.set()

    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(install(adapter_of(FAKE), tmp_path, show=show))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    assert waits.wait(60)
    for thread in threads:
        thread.join(120)
    assert len(found) == 2 and found[0] == found[1] and served.fetched == 1
    assert any("waiting for another installation" in text for text in said)


@NPM
def test_a_killed_installation_leaves_nothing_half(tmp_path: Path, served: Registry) -> None:
    served.held.clear()
    program = (
        "import sys; from pathlib import Path; from harness.agents.base import Package;"
        "from harness.agents.install import install_package;"
        f"install_package(Path(sys.argv[1]), 'fake', Package({NAME!r}, {VERSION!r}, 0, {FAKE.command!r}))"
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)])
    assert served.asked.wait(60)
    child.kill()
    assert child.wait() == -signal.SIGKILL
    with pytest.raises(InstallError, match="is not installed"):
        installed(adapter_of(FAKE), tmp_path)
    served.held.set()
    assert install(adapter_of(FAKE), tmp_path).version == VERSION
    assert not list(tmp_path.glob(".part-*"))


# --- the command line ----------------------------------------------------------------------------------------


@pytest.fixture
def only_fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake CLI and the command adapter are all there are."""
    table = {"fake": adapter_of(FAKE), "command": COMMAND}
    monkeypatch.setattr(cli, "ADAPTERS", table)
    monkeypatch.setattr(agents, "ADAPTERS", table)


@NPM
def test_the_command_line_installs_lists_and_checks(
    tmp_path: Path, served: Registry, only_fake: None, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--prefix", str(tmp_path / "agents")]
    assert cli.main(["list", *where]) == 0
    assert "no" in capsys.readouterr().out.splitlines()[1].split()
    assert cli.main(["doctor", *where]) == 0
    assert "No agent is installed in" in capsys.readouterr().out
    assert cli.main(["doctor", "fake", *where]) == 1
    assert "is not installed in" in capsys.readouterr().out
    assert cli.main(["install", *where]) == 0
    assert "fake       1.2.3     installed in" in capsys.readouterr().out
    assert cli.main(["install", *where]) == 0
    assert "was there already" in capsys.readouterr().out
    assert cli.main(["doctor", *where, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["agents"] == [{"name": "fake", "version": VERSION, "trouble": ""}]
    assert cli.main(["list", *where, "--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)["agents"]
    assert [(one["name"], one["installed"]) for one in listed] == [("fake", True), ("command", None)]


def test_a_wrong_name_and_a_wrong_action_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["install", "cursor"], ["instal"], ["install", "command", "--prefix", str(tmp_path)]):
        assert cli.main(argv) == 2
        said = capsys.readouterr().err
        assert said.startswith("kbh agents: error: ") and said.count("\n") == 1


def test_a_machine_without_npm_is_told_what_to_install(
    tmp_path: Path, only_fake: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["install", "fake", "--prefix", str(tmp_path / "agents")]) == 2
    assert "npm is not on this machine; install Node with npm" in capsys.readouterr().err


def test_the_folder_is_the_one_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KBH_AGENTS_DIR", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert agents_folder() == tmp_path / "data" / "kbh" / "agents"
    monkeypatch.setenv("KBH_AGENTS_DIR", str(tmp_path / "own"))
    assert agents_folder() == tmp_path / "own"
    assert agents_folder(tmp_path / "given") == tmp_path / "given"


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "agents").write_text("a file")
    with pytest.raises(InstallError, match="name another folder with --prefix"):
        install(adapter_of(FAKE), tmp_path / "agents")
