"""Submissions made to cost without end: small texts whose faithful evaluation would take hours or all memory."""

# ruff: noqa: E501
from __future__ import annotations

from textwrap import dedent, indent

KERNEL = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gemm(x, w, s, y, K, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        depth = k + tl.arange(0, BK)
        a = tl.load(x + rows[:, None] * K + depth[None, :], mask=depth[None, :] < K, other=0.0)
        b = tl.load(w + cols[None, :] * K + depth[:, None], mask=depth[:, None] < K, other=0.0)
        acc = tl.dot(a, b, acc)
    out = acc * tl.load(s + cols)[None, :]
    tl.store(y + rows[:, None] * N + cols[None, :], out.to(tl.bfloat16))
"""

MODEL = """\


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.empty(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.empty(N))

    def forward(self, x):
        m, k = x.shape
        n = self.weight.shape[0]
        y = torch.empty(m, n, dtype=torch.bfloat16, device=x.device)
BOMB
        gemm[(m // 64, n // 64)](x, self.weight, self.weight_scale, y, k, n, BM=64, BN=64, BK=64)
        return y
"""

EXTENSION = '''\
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
CUDA
__global__ void scale(const float* x, float* y, int n) {
  int i = threadIdx.x;
  BODY
  if (i < n) y[i] = x[i] * 2.f;
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty({x.size(0), 64}, x.options());
  HOST
  scale<<<1, 128>>>((const float*)x.data_ptr(), (float*)y.data_ptr(), 64);
  return y;
}
"""
ext = load_inline(name="e", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"])


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.empty(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.empty(N))

    def forward(self, x):
        return ext.run(x)
'''

# Statements of host code, each inside forward.
STATEMENTS = {
    "loop-without-end": "while True: pass",
    "loop-that-appends": "a = []\nwhile True: a.append(a)",
    "nested-loops": "t = 0\nfor i in range(10**6):\n    for j in range(10**6):\n        t += j",
    "giant-range": "for i in range(10**18): pass",
    "giant-list": "a = [0] * 10**9",
    "giant-nested-list": "a = [[0] * 10**6 for _ in range(10**6)]",
    "giant-tuple-by-doubling": "a = (1, 2)\nfor _ in range(60): a = a + a",
    "giant-list-by-doubling": "a = [1]\nfor _ in range(60): a += a",
    "giant-list-by-extend": "a = [1]\nfor _ in range(60): a.extend(a)",
    "giant-list-by-star": "a = [1]\nfor _ in range(60): a = [*a, *a]",
    "giant-list-by-slice": "a = [1]\nfor _ in range(60): a[0:0] = a",
    "giant-argument-list": "def f(*a): return f(*a, *a)\nf(1, 2)",
    "giant-dict": "d = {}\nfor i in range(10**9): d[i] = [i] * 1000",
    "giant-string": "a = 'a' * 10**9",
    "giant-string-by-doubling": "a = 'a'\nfor _ in range(60): a = a + a",
    "giant-string-by-join": "a = 'ab'\nfor _ in range(60): a = a.join([a, a, a])",
    "giant-string-by-replace": "a = 'aa'\nfor _ in range(60): a = a.replace('a', a)",
    "giant-string-by-format": "a = '{:>10000000000}'.format(1)",
    "giant-string-by-format-spec": "a = f'{1:>10000000000}'",
    "giant-string-by-percent": "a = '%10000000000d' % 1",
    "giant-string-by-fill": "a = 'a'.zfill(10**10) + 'b'.ljust(10**10) + 'c'.center(10**10)",
    "giant-string-by-tabs": "a = ('\\t' * 1000).expandtabs(10**9)",
    "giant-bytes": "a = bytes(10**10)\nb = bytearray(10**10)\nc = b'a' * 10**10",
    "giant-bytes-by-doubling": "a = b'ab'\nfor _ in range(60): a = a + a",
    "giant-number": "a = 10 ** 10 ** 10",
    "giant-number-by-pow": "a = pow(10, 10 ** 10)",
    "giant-number-by-shift": "a = 1 << 10 ** 12",
    "giant-number-by-squaring": "a = 3\nfor _ in range(80): a = a * a",
    "giant-factorial": "import math\na = math.factorial(10 ** 8) + math.comb(10 ** 8, 10 ** 7) + math.perm(10 ** 8)",
    "giant-fraction": "a = 1\nfor i in range(1, 10**5): a = a * 999999999999999999999",
    "long-number-to-text": "a = str(1 << 4000)\nfor _ in range(10**6): a = str(int(a))",
    "sorted-again-and-again": "a = list(range(10**6))\nwhile True: a = sorted(a)",
    "summed-again-and-again": "while True: a = sum(range(10**6))",
    "zipped-again-and-again": "a = [list(zip(range(10**6), range(10**6))) for _ in range(10**4)]",
    "searched-again-and-again": "a = list(range(10**6))\nwhile True: b = -1 in a",
    "comprehension-bomb": "a = [0 for i in range(10**5) for j in range(10**5) for k in range(10**5)]",
    "generator-bomb": "a = sum(i for i in range(10**9) for j in range(10**9))",
    "set-bomb": "a = {(i, j) for i in range(10**5) for j in range(10**5)}",
    "product-bomb": "import itertools\na = list(itertools.product(range(10**4), repeat=20))",
    "permutation-bomb": "import itertools\na = list(itertools.permutations(range(100)))",
    "combination-bomb": "import itertools\na = list(itertools.combinations(range(1000), 500))",
    "chain-bomb": "import itertools\na = list(itertools.chain(*[range(10**6)] * 10**6))",
    "counter-without-end": "import itertools\nfor i in itertools.count(): pass\na = list(itertools.cycle([1]))",
    "exponential-recursion": "def fib(n): return fib(n - 1) + fib(n - 2) if n > 1 else n\na = fib(60)",
    "recursion-without-end": "def f(n): return f(n + 1)\na = f(0)",
    "mutual-recursion": "def f(n): return [g(n), g(n)]\ndef g(n): return [f(n), f(n)]\na = f(0)",
    "recursion-through-a-lambda": "f = lambda g: g(g)\na = f(f)",
    "generator-without-end": "def g():\n    while True:\n        yield 1\nfor i in g(): pass",
    "self-holding-list": "a = []\na.append(a)\nb = str(a) + repr(a)\nc = a == [a]\nd = f'{a}'",
    "nested-dict": "d = {}\nfor _ in range(10**5): d = {0: d}\na = str(d)\nb = d == {0: d}",
    "nested-list": "a = []\nfor _ in range(10**5): a = [a]\nb = str(a)\nc = a == [a]\ndel a",
    "shared-tuple-shown": "a = (1,)\nfor _ in range(60): a = (a, a)\nb = str(a)\nc = f'{a}' + '%s' % (a,) + '{}'.format(a)",
    "shared-tuple-hashed": "a = (1,)\nfor _ in range(60): a = (a, a)\nd = {a: 1}\nb = d.get(a)\nc = {a} | {a}\ne = hash(a)",
    "shared-tuple-compared": "a = b = (1,)\nfor _ in range(60): a, b = (a, a), (b, b)\nc = a == b\nd = a < b\ne = max(a, b)",
    "shared-list-searched": "a = [1]\nb = [1]\nfor _ in range(60): a, b = [a, a], [b, b]\nc = a in [b]\nd = [b].index(a)\n[b].remove(a)",
    "deep-tuple-hashed": "a = ()\nfor _ in range(10**5): a = (a,)\nb = {a: 1}\nc = hash(a)\nd = a == (a,)",
    "deep-tuple-memoized": "import functools\n@functools.lru_cache\ndef f(a): return 1\na = ()\nfor _ in range(10**5): a = (a,)\nf(a)",
    "long-texts": "a = ['a' * 10**6 + str(i) for i in range(10**6)]",
    "rounding": "a = round(5, -10**9)",
    "product-of-numbers": "import math\na = math.prod(range(1, 10**6))\nb = math.lcm(*range(1, 10**5))",
    "copies-without-end": "import copy\na = [1] * 10**6\nb = [copy.copy(a) for _ in range(10**6)]",
    "dictionaries-without-end": "d = {i: i for i in range(10**4)}\na = [dict(d) for _ in range(10**6)]\nb = [{**d} for _ in range(10**6)]",
    "slices-without-end": "a = [1] * 10**6\nb = [a[:] for _ in range(10**6)]\nc = 'a' * 10**6\nd = [c[1:] for _ in range(10**6)]",
    "regex-bomb": "import re\na = re.match('(a+)+$', 'a' * 5000 + 'b')\nb = re.sub('(x+x+)+y', '', 'x' * 10000)",
    "property-without-end": "class C:\n    @property\n    def p(self): return self.p\na = C().p",
    "getattr-without-end": "class C:\n    def __getattr__(self, n): return getattr(self, n + 'x')\na = C().q",
    "own-operators-without-end": "class C:\n    def __add__(self, o): return self + o\na = C() + 1",
    "subclass-chain": "C = object\nfor i in range(10**4):\n    class C(C): pass\na = C().nothing",
    "class-lattice": "class A: pass\nclass B: pass\nfor _ in range(60):\n    class C(A, B): pass\n    class D(A, B): pass\n    A, B = C, D\na = A().nothing",
    "inherits-from-itself": "class C: pass\nC.__bases__ = (C,)\nclass D(C, C): pass\na = D().nothing",
    "decorators-without-end": "def d(f): return d(f)\n@d\ndef g(): pass",
    "exceptions-without-end": "def f():\n    try:\n        raise ValueError\n    finally:\n        f()\nf()",
    "tensors-without-end": "a = [torch.empty(10**6, 10**6) for _ in range(10**9)]",
    "giant-tensor": "a = torch.empty(10**30, 10**30)\nb = a.reshape(-1).tolist()\nc = list(torch.empty(10**9))",
    "rank-bomb": "a = torch.empty([1] * 10**5)\nb = a[(None,) * 10**5]\nc = a.permute(*range(10**5))",
    "concatenation-bomb": "a = torch.empty(1)\nfor _ in range(200): a = torch.cat([a] * 50)",
    "split-bomb": "a = torch.empty(10**9).split(1)\nb = torch.empty(10**9).unbind()\nc = torch.empty(10**9).chunk(10**9)",
    "shared-objects-shown": "class C:\n    def __init__(self, a): self.a = self.b = a\na = C(x)\nfor _ in range(60): a = C(a)\nb = str([a]) + f'{a}{[a]}' + '%s' % a\nc = {}[a, 1]",
    "shared-tuple-launched": "a = (1,)\nfor _ in range(60): a = (a, a)\ngemm[(1,)](x, x, a, x, 1, a, BM=a, BN=16, BK=16)",
    "shared-results-launched-with": "a = x.sum().item()\nfor _ in range(60): a = [a, x.sum().item() * x.amax().item()]\ngemm[a](x, x, x, x, 1, a, BM=16, BN=16, BK=16)",
    "launch-bomb": "for i in range(10**6): gemm[(1,)](i, i, i, i, i, i, BM=16 + i, BN=16, BK=16)",
    "exec-bomb": "s = 'exec(s)'\nexec(s)",
    "exec-that-grows": "s = 's = s + s; exec(s)'\nexec(s)",
    "eval-nesting": "a = eval('(' * 10**4 + '1' + ')' * 10**4)",
    "file-bomb": "for i in range(10**6):\n    open(f'/tmp/never-written-{i}', 'w').write('x' * 10**5)",
}  # fmt: skip

# The interpreter is the same at both levels; these are those whose bound is the module's own.
AT_MODULE_LEVEL = {
    "loop-without-end",
    "giant-list-by-doubling",
    "exponential-recursion",
    "recursion-without-end",
    "exec-bomb",
}

# Whole programs.
PROGRAMS = {
    "nested-parentheses": f"x = {'(' * 10_000}1{')' * 10_000}\n",
    "nested-lists": f"x = {'[' * 5_000}{']' * 5_000}\n",
    "nested-calls": f"x = {'f(' * 80}1{')' * 80}\n" * 50,
    "nested-unary": f"x = {'not ' * 10_000}1\n" + f"y = {'-' * 10_000}1\n",
    "nested-lambdas": f"x = {'lambda: ' * 5_000}1\n",
    "nested-strings": "x = " + "f'{" * 4 + "1" + "}'" * 4 + "\n",
    "nested-functions": "".join(" " * i + f"def f{i}():\n" for i in range(95)) + " " * 95 + "pass\n",
    "nested-blocks": "".join(" " * i + "if x:\n" for i in range(2_000)) + " " * 2_000 + "pass\n",
    "long-elif": "x = 1\nif x == 0: pass\n" + "".join(f"elif x == {i + 7}: y = {i}\n" for i in range(2_000)),
    "long-sum": "x = " + " + ".join(["1"] * 50_000) + "\n",
    "long-attribute": "import torch\nx = torch" + ".a" * 20_000 + "\n",
    "long-calls": "def f(): return f\nx = f" + "()" * 20_000 + "\n",
    "long-comparison": "x = " + " < ".join(map(str, range(20_000))) + "\n",
    "long-and": "x = " + " and ".join(["True"] * 50_000) + "\n",
    "long-power": "x = " + " ** ".join(["2"] * 2_000) + "\n",
    "long-adjacent-strings": "x = (" + "'ab'\n" * 100_000 + ")\n",
    "long-line": "x = [" + "1, " * 150_000 + "]\n",
    "long-string": "x = '" + "a" * 1_900_000 + "'\n",
    "long-number": "x = " + "9" * 100_000 + "\n",
    "long-name": "a" * 1_000_000 + " = 1\n",
    "backslashes": "x = '" + "\\\\" * 500_000 + "'\n",
    "quotes": "x = '" + "'" * 1_000_001,
    "many-comments": "# kbh: ignore[KBH101] no\n" * 50_000,
    "many-functions": "".join(f"def f{i}(x): return f{i + 1}(x)\n" for i in range(15_000)),
    "many-classes": "".join(f"class C{i}:\n    pass\n" for i in range(30_000)),
    "many-imports": "".join(f"import m{i} as n{i}\n" for i in range(40_000)),
    "many-kernels": "import triton\nimport triton.language as tl\n"
    + "".join(f"@triton.jit\ndef k{i}(x):\n    tl.store(x, {i})\n" for i in range(10_000)),
    "many-decorators": "".join(["@f\n"] * 20_000) + "def g(): pass\n",
    "many-parameters": "def f(" + ", ".join(f"a{i}=1" for i in range(30_000)) + "): pass\nf()\n",
    "many-globals": "def f():\n" + "".join(f"    global g{i}\n" for i in range(30_000)) + "f()\n",
    "many-branches": "import os\n" + "".join(f"if os.urandom({i}): x = {i}\n" for i in range(5_000)),
    "wide-characters": "# " + "\U0001f600" * 100_000 + "\nx = '" + "é" * 100_000 + "'\n",
    "form-feeds": "\f" * 100_000 + "x = 1\n",
    "unclosed": "(" * 100_000,
    "only-dots": "." * 100_000,
    "markers-without-end": "".join(
        f"# ===== sidecar: f{i}.cu (3 bytes, loaded by solution.py) =====\nint\n" for i in range(20_000)
    ),
}  # fmt: skip

# CUDA text: (at file level, in the kernel, in the host function).
CUDA = {
    "macro-doubling": ("#define A0 f f\n" + "".join(f"#define A{i} A{i - 1} A{i - 1}\n" for i in range(1, 60)), "A59;", ""),
    "macro-arguments": (
        "#define B0(x) x x\n" + "".join(f"#define B{i}(x) B{i - 1}(B{i - 1}(x))\n" for i in range(1, 30)),
        "B29(i += 1;)",
        "",
    ),
    "macro-recursion": ("#define R(x) R(R(x)) x\n", "R(R(R(R(R(i))))) ;", ""),
    "macro-pasting": ("#define P(x) x##x\n#define Q(x) P(x) P(x##x)\n", "int Q(a);", ""),
    "many-macros": ("".join(f"#define M{i} {i}\n" for i in range(20_000)), "i += M19999;", ""),
    "conditions-nested": ("#if 1\n" * 5_000 + "int z;\n" + "#endif\n" * 5_000, "", ""),
    "condition-long": ("#if " + "(" * 2_000 + "1" + ")" * 2_000 + "\nint z;\n#endif\n", "", ""),
    "condition-arithmetic": ("#if (1 << 62) * (1 << 62) / 0 || 1 % 0\nint z;\n#endif\n", "", ""),
    "template-recursion": (
        "template <int N> struct F { static constexpr int v = F<N - 1>::v + F<N - 2>::v; };\n",
        "i += F<1000>::v;",
        "int q = F<1000>::v;",
    ),
    "template-function-recursion": (
        "template <int N> __device__ __host__ int g() { return g<N + 1>() + g<N + 2>(); }\n",
        "i += g<0>();",
        "int q = g<0>();",
    ),
    "template-arguments-nested": ("template <class T> struct W {};\nusing X = " + "W<" * 500 + "int" + ">" * 500 + ";\n", "X a;", "X a;"),
    "alias-cycle": ("using A = B;\nusing B = A;\nstruct C { C c; B b; };\n", "C c; A a; a.x = 1;", "C c; A a; a.x = 1;"),
    "constexpr-recursion": ("constexpr long f(long n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\n", "i += f(90);", "long q = f(90);"),
    "array-giant": ("", "float a[1 << 30]; float b[65536][65536][65536]; a[i] = b[i][i][i];", "float a[1 << 30];"),
    "loop-without-end": ("", "for (;;) { i += i; }", "for (;;) { } while (true) { } do { } while (1);"),
    "loop-giant": ("", "for (long a = 0; a < (1L << 60); ++a) for (long b = 0; b < (1L << 60); ++b) i += a;", "for (long a = 0; a < (1L << 60); ++a) { y = y + x; }"),
    "loop-unrolled": ("", "\n#pragma unroll\nfor (int a = 0; a < 1000000; ++a)\n#pragma unroll\nfor (int b = 0; b < 1000000; ++b) i ^= a * b;\n", ""),
    "goto": ("", "again: i++; goto again;", ""),
    "recursion": ("__device__ __host__ int h(int n) { return h(n + 1) + h(n - 1); }\n", "i = h(i);", "int q = h(3);"),
    "switch-long": ("", "switch (i) {" + "".join(f"case {k}: i = {k + 1};" for k in range(2_000)) + "}", ""),
    "branches-many": ("", "".join(f"if (i & {1 << (k % 30)}) i += {k}; else i -= {k};" for k in range(2_000)), ""),
    "branches-nested": ("", "if (i) {" * 150 + "i++;" + "}" * 150, ""),
    "parentheses": ("", "i = " + "(" * 5_000 + "1" + ")" * 5_000 + ";", ""),
    "braces": ("{" * 5_000, "", ""),
    "angle-brackets": ("", "i = a" + "<" * 5_000 + "b;", ""),
    "expression-long": ("", "i = " + "+".join(["i"] * 20_000) + ";", "int q = " + "+".join(["1"] * 20_000) + ";"),
    "ternaries": ("", "i = " + "i ? 1 : " * 2_000 + "0;", ""),
    "statements-many": ("", "i = i * 3 + 1;\n" * 8_000, "y = y + x;\n" * 2_000),
    "functions-many": ("".join(f"__device__ int f{k}(int a) {{ return f{k + 1}(a); }}\n" for k in range(4_000)), "i = f0(i);", ""),
    "launches-many": ("", "", "scale<<<1, 128>>>((const float*)x.data_ptr(), (float*)y.data_ptr(), 64);\n" * 800),
    "asm-long": ("", 'asm volatile("' + "add.s32 %0, %0, 1;\\n" * 20_000 + '" : "+r"(i));', ""),
    "asm-many": ("", 'asm volatile("{ .reg .b32 t; mov.b32 t, %0; add.s32 %0, t, 1; }" : "+r"(i));\n' * 3_000, ""),
    "asm-unclosed": ("", 'asm volatile("{{{{ @@p mma.sync.' + ".e4m3" * 5_000 + ' {%0, %1" : : );', ""),
    "asm-labels": ("", 'asm volatile("L: bra L; .reg .b32 r<1000000000>; bra.uni L;");', ""),
    "asm-operands": ("", 'asm volatile("f %0;" : ' + ", ".join(['"+r"(i)'] * 5_000) + ");", ""),
    "string-unclosed": ('const char* s = "' + "\\" * 20_001, "", ""),
    "comment-unclosed": ("/*" * 50_000, "", ""),
    "raw-strings": ('const char* s = R"' + "x" * 10_000 + "(", "", ""),
    "numbers-long": ("", "i = " + "9" * 50_000 + ";", "long q = " + "9" * 50_000 + ";"),
    "numbers-giant": ("", "i = 1e999999999; i = 0x1p999999999; i <<= 1 << 30;", "double q = 1e999999999; long r = 1L << (1L << 60);"),
    "operators-own": ("struct O { __device__ O operator+(O o) { return *this + o; } };\n", "O a, b; a = a + b;", ""),
    "namespaces-nested": ("namespace a {" * 150 + "int z;" + "}" * 150, "", ""),
    "includes-many": ('#include "self.cuh"\n' * 20_000, "", ""),
    "attributes": ("__launch_bounds__(" * 2_000 + "1" + ")" * 2_000 + " void q();\n", "", ""),
    "pragmas": ("#pragma unroll\n" * 20_000, "", ""),
    "line-continuations": ("#define L \\\n" * 20_000 + "1\n", "i = L;", ""),
    "structs-in-structs": ("struct S0 { float a; };\n" + "".join(f"struct S{i} {{ S{i - 1} a; S{i - 1} b; }};\n" for i in range(1, 40)), "S39 s; i = s.b.a.nothing;", "S39 s;"),
    "struct-lattice": ("struct A0 { int a; }; struct B0 { int a; };\n" + "".join(f"struct A{i} : A{i - 1}, B{i - 1} {{}}; struct B{i} : A{i - 1}, B{i - 1} {{}};\n" for i in range(1, 40)), "A39 s; i = s.nothing; s.call(i);", "A39 s; s.call(1);"),
    "types-in-types": ("template <class A, class B> struct P { A a; B b; };\nusing T0 = float;\n" + "".join(f"using T{i} = P<T{i - 1}, T{i - 1}>;\n" for i in range(1, 40)), "T39 s; i = s.b.a.nothing;", "T39 s;"),
    "lambda-recursion": ("", "auto f = [&](auto g) { return g(g); }; f(f);", "auto f = [&](auto g) { return g(g); }; f(f);"),
}  # fmt: skip

# Bodies of a Triton kernel.
TRITON = {
    "static-range": "for a in tl.static_range(10**9):\n    for b in tl.static_range(10**9):\n        acc += a * b",
    "loop-without-end": "while True:\n    acc += 1",
    "shape-giant": "acc = tl.zeros((2**40, 2**40), dtype=tl.float32)",
    "number-giant": "acc = acc * 10 ** 10 ** 10",
    "tuple-doubling": "t = (acc, acc)\nfor _ in tl.static_range(60):\n    t = t + t\nacc = t[0]",
    "nested-loops": "for a in range(n):\n for b in range(a):\n  for c in range(b):\n   for d in range(c):\n    for e in range(d):\n     acc += e",
    "helper-recursion": "acc = helper(acc, 5)",
    "branches": "\n".join(f"if n > {i}:\n    acc += {i}" for i in range(500)),
    "long": "acc = acc * 2 + 1\n" * 20_000,
    "list-doubling": "t = [acc]\nfor _ in tl.static_range(60):\n    t += t",
}  # fmt: skip

TRITON_KERNEL = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def helper(a, n):
    return helper(a, n + 1) + helper(a, n - 1)


@triton.jit
def kernel(x, y, n):
    acc = tl.load(x + tl.arange(0, 64))
BODY
    tl.store(y + tl.arange(0, 64), acc)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.empty(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.empty(N))

    def forward(self, x):
        y = torch.empty(x.shape[0], self.weight.shape[0], dtype=torch.bfloat16)
        kernel[(1,)](x, y, 100)
        return y
"""


def submissions() -> dict[str, str]:
    """Every hostile submission by its name."""
    out: dict[str, str] = {}
    for name, code in STATEMENTS.items():
        if name in AT_MODULE_LEVEL:
            out[f"module/{name}"] = f"{KERNEL}\n{dedent(code)}\n{MODEL.replace('BOMB', '')}"
        out[f"forward/{name}"] = KERNEL + MODEL.replace("BOMB", indent(dedent(code), " " * 8))
    for name, code in PROGRAMS.items():
        out[f"program/{name}"] = code
    for name, (top, body, host) in CUDA.items():
        out[f"cuda/{name}"] = EXTENSION.replace("CUDA", top).replace("BODY", body).replace("HOST", host)
    for name, body in TRITON.items():
        out[f"triton/{name}"] = TRITON_KERNEL.replace("BODY", indent(body, " " * 4))
    return out
