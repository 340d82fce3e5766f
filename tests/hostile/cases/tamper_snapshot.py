"""Changes the file that was linted, so that a later process runs another."""

import os
from pathlib import Path

import torch
from torch import nn


def product(x, w, used):
    return (x @ w) * (torch.arange(len(x), device=x.device) < used)[:, None]


def attempt(name, action, *args):
    """Says whether something that must not work did."""
    try:
        result = action(*args)
    except BaseException as error:
        print(f"TRIED {name}: {type(error).__name__}", flush=True)
        return
    print(f"{'BREACH' if result else 'TRIED'} {name}", flush=True)


HERE = Path(__file__)
LATER = "import torch\nprint('BREACH another file ran')\n"


def openable(file):
    """Whether a file of others can be opened for writing; nothing is written."""
    os.close(os.open(file, os.O_WRONLY))
    return True


def append(file):
    with file.open("a") as end:
        return end.write("\n")


def replace():
    other = Path(os.environ["TMPDIR"], "solution.py")
    other.write_text(LATER)
    os.replace(other, HERE)
    return True


attempt("chmod", lambda: HERE.chmod(0o666) or True)
attempt("write", lambda: HERE.write_text(LATER))
attempt("append", append, HERE)
attempt("replace", replace)
attempt("unlink", lambda: HERE.unlink() or True)
attempt("rename the folder", lambda: HERE.parent.rename(HERE.parent.with_name("other")) and True)
attempt("a library beside it", lambda: HERE.with_name("torch.py").write_text(LATER))
attempt("byte code beside it", lambda: HERE.with_name("__pycache__").mkdir() or True)
for library in ("grader", "torch"):
    attempt(library, openable, __import__(library).__file__)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        return product(x, self.w, used)
