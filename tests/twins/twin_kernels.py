"""The three programs as one thread an output, written in words that a device idiom may spell in its own way."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from twin_programs import GROUPED, INT4, PAGED, Program

HOST = "Tensor run_(FOUR) { Tensor y = EMPTY; BARE; return y; }\n"
INCLUDES = "#include <cuda_bf16.h>\n#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
# What a word stands for where a row does not say; $0, $1, ... are its arguments.
PLAIN = {
    "EACH": "const int $0 = blockIdx.x * blockDim.x + threadIdx.x; if ($0 < $1) {",
    "END": "}",
    "LOOP": "for (int $0 = 0; $0 < $1; ++$0) {",
    "NEXT": "}",
    "LOAD": "$0[$1]",
    "ADD": "$0 += $1;",
    "STORE": "$0[$1] = Y($2);",
}
HEAD = "__global__ void work(const A* a, const B* b, const C* c, const D* d, Y* y, NAMES, int total) {\n"
# The program, its kernel, what PICK is in it, what it is with a fault in the kernel, and how many outputs there are.
KERNELS: tuple[tuple[Program, str, str, str, str], ...] = (
    (
        INT4,
        HEAD.replace("NAMES", "int m, int n, int k, int groups")
        + """
  EACH(unit, total)
    const int row = unit / n, column = unit % n;
    float sum = 0.f;
    LOOP(i, k / 2)
      const int at = (i / 64) * n + column;
      const float scale = (float)LOAD(c, at), zero = (float)LOAD(d, at);
      PICK
      const float x = (float)LOAD(a, row * k + 2 * i), z = (float)LOAD(a, row * k + 2 * i + 1);
      ADD(sum, x * (low - zero) * scale + z * (high - zero) * scale)
    NEXT(i)
    STORE(y, row * n + column, sum)
  END(unit)
}
""",
        "const int pair = LOAD(b, i * n + column), low = pair & 15, high = pair >> 4;",
        "const int low = LOAD(b, 2 * i * n + column), high = LOAD(b, (2 * i + 1) * n + column);",
        "a.size(0) * b.size(-1)",
    ),
    (
        PAGED,
        HEAD.replace("NAMES", "int heads, int dim, int shared, int pages")
        + """
  EACH(unit, total)
    const int t = unit % dim, h = unit / dim % heads, s = unit / (dim * heads);
    PICK
    float top = -1e30f, sum = 0.f, all = 0.f;
    LOOP(i, length)
      const int page = LOAD(c, s * pages + i / 16);
      const size_t row = (((size_t)page * 16 + i % 16) * shared + h / (heads / shared)) * 2 * dim;
      float dot = 0.f;
      LOOP(j, dim)
        ADD(dot, (float)LOAD(a, (s * heads + h) * dim + j) * (float)LOAD(b, row + j))
      NEXT(j)
      dot *= rsqrtf((float)dim);
      const float next = fmaxf(top, dot), scale = expf(top - next), e = expf(dot - next);
      sum *= scale; all *= scale;
      ADD(sum, e)
      ADD(all, e * (float)LOAD(b, row + dim + t))
      top = next;
    NEXT(i)
    STORE(y, unit, all / sum)
  END(unit)
}
""",
        "const int length = LOAD(d, s);",
        "const int length = pages * 16;",
        "a.numel()",
    ),
    (
        GROUPED,
        HEAD.replace("NAMES", "int rows, int n, int k, int experts")
        + """
  EACH(unit, total)
    const int row = unit / n, column = unit % n;
    int e = 0;
    PICK
    float gate = 0.f, up = 0.f;
    LOOP(i, k)
      const float x = (float)LOAD(a, (size_t)row * k + i);
      ADD(gate, x * (float)LOAD(c, ((size_t)e * k + i) * n + column))
      ADD(up, x * (float)LOAD(d, ((size_t)e * k + i) * n + column))
    NEXT(i)
    STORE(y, unit, gate / (1.f + expf(-gate)) * up)
  END(unit)
}
""",
        "while (e + 1 < experts && row >= LOAD(b, e + 1)) ++e;",
        "e = row / (rows / experts);",
        "a.size(0) * c.size(2)",
    ),
)


@dataclass(frozen=True)
class Idiom:
    """How a row spells the words, and what it defines before the kernel."""

    name: str
    pre: str = ""
    words: dict[str, str] = field(default_factory=dict)

    def fill(self, text: str) -> str:
        """Text with every word spelled out, words inside arguments of others too."""
        for word, plain in PLAIN.items():
            spelled = self.words.get(word.lower(), plain)
            while (at := text.find(f"{word}(")) >= 0:
                start = at + len(word) + 1
                end, args = _arguments(text, start)
                made = spelled
                for number, arg in enumerate(args):
                    made = made.replace(f"${number}", arg)
                text = text[:at] + made + text[end:]
        return text

    def programs(self) -> list[Program]:
        """The three programs written so."""
        out = []
        for base, kernel, honest, broken, total in KERNELS:
            text = self.fill(kernel.replace("PICK", honest))
            out.append(
                replace(
                    base,
                    types=INCLUDES + base.types,
                    kernel=self.pre + text,
                    grid=f"dim3(({total} + 255) / 256)",
                    block="dim3(256)",
                    ints=f"{base.ints}, (int)({total})",
                    honest=text,
                    broken=self.fill(kernel.replace("PICK", broken)),
                )
            )
        return out


def _arguments(text: str, start: int) -> tuple[int, list[str]]:
    """The arguments of a word from behind its parenthesis, and where its closing one ends."""
    depth, at, args, begun = 0, start, [], start
    while True:
        char = text[at]
        if depth == 0 and char in ",)":
            args.append(text[begun:at].strip())
            begun = at + 1
            if char == ")":
                return at + 1, args
        depth += (char in "([{") - (char in ")]}")
        at += 1
