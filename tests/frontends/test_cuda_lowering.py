"""What each piece of CUDA C++ becomes in the IR."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from kbh_lint.base import ir
from kbh_lint.frontends import cuda

T = TypeVar("T")


def lowered(text: str, **kwargs: Any) -> ir.Module:
    return cuda.lower(text, cuda.lines_origin(text, "k.cu"), **kwargs)


def calls_in(module: ir.Module) -> list[ir.Call]:
    """All calls in a module, in order of text."""
    return [node for node in cuda.walk(module.body) if isinstance(node, ir.Call)]


def body(text: str) -> tuple[ir.Stmt, ...]:
    """The statements of a function with this body."""
    (func,) = lowered("void f() {" + text + "}").body
    assert isinstance(func, ir.FuncDef) and func.body is not None
    return func.body


def only(kind: type[T], nodes: Any) -> T:
    found = [node for node in cuda.walk(nodes) if isinstance(node, kind)]
    assert len(found) == 1, found
    return found[0]


def expression(text: str) -> ir.Expr:
    (statement,) = body(f"x = {text};")
    assert isinstance(statement, ir.Assign)
    return statement.value


def show(node: Any) -> str:
    """A short form of an expression, for comparisons."""
    match node:
        case ir.Name(id=name):
            return name
        case ir.Const(value=value):
            return repr(value)
        case ir.TypeRef():
            args = f"<{', '.join(map(show, node.args))}>" if node.args else ""
            member = "".join(f"::{part}" for part in node.member)
            dims = "".join(f"[{show(size)}]" for size in node.dims)
            const = "const " if node.const else ""
            return f"{const}{node.name}{args}{member}{'*' * node.pointers}{'&' if node.reference else ''}{dims}"
        case ir.Attr():
            args = "" if node.args is None else f"<{', '.join(map(show, node.args))}>"
            return f"{show(node.value)}.{node.name}{args}"
        case ir.Call():
            return f"{show(node.func)}({', '.join(map(show, node.args))})"
        case ir.Binary(op=op):
            return f"({show(node.left)} {op} {show(node.right)})"
        case ir.Unary(op=op):
            return f"{op} {show(node.value)}"
        case ir.Index():
            return f"{show(node.value)}[{show(node.index)}]"
        case ir.Cast():
            return f"{node.kind}<{show(node.type)}>({show(node.value)})"
        case ir.Compare():
            return f"({show(node.left)} {node.ops[0]} {show(node.rights[0])})"
        case ir.Bool():
            return f"({f' {node.op} '.join(map(show, node.values))})"
        case ir.Cond():
            return f"({show(node.test)} ? {show(node.yes)} : {show(node.no)})"
        case ir.Seq():
            return f"{node.kind}{{{', '.join(map(show, node.items))}}}"
        case ir.AssignE():
            return f"({show(node.target)} {node.op}={'post' if node.post else ''} {show(node.value)})"
        case ir.Star():
            return f"*{show(node.value)}"
        case ir.Decl():
            init = "" if node.init is None else f" = {show(node.init)}"
            return f"{show(node.type)} {node.name}{init}"
        case None:
            return "None"
    return type(node).__name__


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("a && b && c || !d", "((a and b and c) or not d)"),
        ("a < b == c", "((a < b) == c)"),
        ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
        ("at::matmul(a, b)", "at::matmul(a, b)"),
        ("::at::mm(a)", "at::mm(a)"),
        ("run<64, float>(x)", "run<64, float>(x)"),
        ("Cfg<A, 2>::run(x)", "Cfg<A, 2>::run(x)"),
        ("Cfg<A>::run<3>(x)", "Cfg<A>.run<3>(x)"),
        ("t.data_ptr<float>()", "t.data_ptr<float>()"),
        ("t->template get<2>()", "t.get<2>()"),
        ("p->x.y", "p.x.y"),
        ("a[i][j + 1]", "a[i][(j + 1)]"),
        ("*p++", "* (p +=post 1)"),
        ("!n++", "not (n +=post 1)"),
        ("-n--", "- (n -=post 1)"),
        ("!~n++", "not ~ (n +=post 1)"),
        ("&s[0]", "& s[0]"),
        ("(float)y", "c<float>(y)"),
        ("(float)(y)", "c<float>(y)"),
        ("(const float4*)p", "c<const float4*>(p)"),
        ("(n) - 1", "(n - 1)"),
        ("(n) & mask", "(n & mask)"),
        ("(int) - 1", "c<int>(-1)"),
        ("static_cast<float>(y)", "static<float>(y)"),
        ("*reinterpret_cast<const uint4*>(&a[0])", "* reinterpret<const uint4*>(& a[0])"),
        ("float(y)", "float(y)"),
        ("(unsigned(y) << 4)", "(uint32_t(y) << 4)"),
        ("float4{1, 2}", "float4(1, 2)"),
        ("sizeof(float)", "sizeof(float)"),
        ("sizeof(y)", "sizeof(y)"),
        ("sizeof...(Ts)", "sizeof...(Ts)"),
        ("f(args...)", "f(*args)"),
        ("{1, {2, 3}}", "init{1, init{2, 3}}"),
        ("new float[4]", "new(float, 4)"),
        ("T::X{1.0f, 0.f}", "T::X(1.0, 0.0)"),
        ("typename T::X{1.0f, 0.f}", "T::X(1.0, 0.0)"),
        ("this->n", "this.n"),
    ],
)
def test_expressions(text: str, result: str) -> None:
    assert show(expression(text)) == result


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("k += k < size<2>(a)", "(k < size<2>(a))"),
        ("k = k < cute::size<0>(a, b)", "(k < cute::size<0>(a, b))"),
        ("get<n < 2>(a)", "get<(n < 2)>(a)"),
    ],
)
def test_what_is_given_values_is_no_template(text: str, result: str) -> None:
    assert result in show(expression(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", 42), ("0x1Fu", 31), ("0b101", 5), ("017", 15), ("1'000'000ULL", 1_000_000), ("-3", -3),
        ("1.5f", 1.5), ("1e-3", 0.001), (".5F", 0.5), ("0x1p-2f", 0.25), ("'a'", 97), (r"'\n'", 10), (r"'\x41'", 65),
        ("true", True), ("nullptr", None), (r'"a\tb" "c"', "a\tbc"), (r'R"(a\n)"', r"a\n"), (r'R"x(")")x"', '")"'),
    ],
)  # fmt: skip
def test_literals(text: str, value: object) -> None:
    node = expression(text)
    assert isinstance(node, ir.Const)
    assert node.value == value and type(node.value) is type(value)


@pytest.mark.parametrize(
    ("text", "results"),
    [
        ("int a, *b = p, c[2][3];", ["int a", "int* b = p", "int[2][3] c"]),
        ("const float& r = x;", ["const float& r = x"]),
        ("unsigned long  long n = 1;", ["unsigned long long n = 1"]),
        ("dim3 grid(a, b);", ["dim3 grid = ctor{a, b}"]),
        ("dim3 grid((n + 3) / 4, b);", ["dim3 grid = ctor{((n + 3) / 4), b}"]),
        ("dim3 grid(a * b, c & d);", ["dim3 grid = ctor{(a * b), (c & d)}"]),
        ("T x{1, 2};", ["T x = init{1, 2}"]),
        ("float (*fp)(int) = f;", ["function<float, int>* fp = f"]),
        ("float (&rows)[4] = r;", ["float&[4] rows = r"]),
        ("half (*rows)[N + 1] = (half (*)[N + 1])p;", ["half[None][(N + 1)] rows = c<half[None][(N + 1)]>(p)"]),
        ("typename G::Arguments args{{M}, {a}};", ["G::Arguments args = init{init{M}, init{a}}"]),
        ("wmma::fragment<wmma::matrix_a, 16, half> fa;", ["wmma::fragment<wmma::matrix_a, 16, half> fa"]),
        ("typename A<B, 2>::C::D y;", ["A<B, 2>::C::D y"]),
    ],
)
def test_variables(text: str, results: list[str]) -> None:
    assert [show(statement) for statement in body(text)] == results


def test_shared_memory_keeps_its_storage_words() -> None:
    extern, tile = body("extern __shared__ __align__(128) uint8_t raw[]; __shared__ float tile[2][64 + 1];")
    assert isinstance(extern, ir.Decl) and isinstance(tile, ir.Decl) and tile.type is not None
    assert extern.storage == {"extern", "__shared__", "__align__(128)"}
    assert extern.type is not None and show(extern.type) == "uint8_t[None]"
    assert tile.storage == {"__shared__"} and show(tile.type) == "float[2][(64 + 1)]"


def test_a_kernel_keeps_its_attributes_templates_and_parameters() -> None:
    text = (
        "template <int N, typename T = float, class... R>\n"
        "__global__ void __launch_bounds__(128, 2)\n"
        "k(const T* __restrict__ p, const __grid_constant__ CUtensorMap map, int n = 3) { p[0]; }"
    )
    (func,) = lowered(text).body
    assert isinstance(func, ir.FuncDef)
    assert (func.name, func.kind) == ("k", "global")
    assert {"__global__", "__launch_bounds__(128, 2)"} <= set(func.attributes)
    assert [(p.kind, p.name, p.pack) for p in func.template] == [
        ("value", "N", False),
        ("type", "T", False),
        ("type", "R", True),
    ]
    assert show(func.template[1].default) == "float"
    assert [(p.name, show(p.type), show(p.default)) for p in func.params] == [
        ("p", "const T*", "None"),
        ("map", "const CUtensorMap", "None"),
        ("n", "int", "3"),
    ]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("__global__ void f() {}", "global"),
        ("CUTLASS_GLOBAL void f() {}", "global"),
        ("static __device__ __forceinline__ float f() { return 1; }", "device"),
        ("__host__ __device__ int f() { return 1; }", "device"),
        ("extern \"C\" int f() { return 1; }", "host"),
        ("extern \"C\" {\n int f() { return 1; }\n}", "host"),
        ("#define FN __device__ inline\nFN int f() { return 1; }", "device"),
        ("#define KERNEL(n) __global__ void n\nKERNEL(f)() { g(); }", "global"),
        ("[[nodiscard]] __attribute__((noinline)) int f() { return 1; }", "host"),
        ("template <> __global__ void f<4>() {}", "global"),
    ],
)  # fmt: skip
def test_the_kind_of_a_function_comes_from_its_words(text: str, kind: str) -> None:
    func = only(ir.FuncDef, lowered(text).body)
    assert (func.name, func.kind) == ("f", kind)


def test_a_maybe_unused_parameter_does_not_hide_the_ones_after_it() -> None:
    func = only(ir.FuncDef, lowered("int f([[maybe_unused]] int a, [[maybe_unused]] int b) { return 1; }").body)
    assert [param.name for param in func.params] == ["a", "b"] and func.body is not None


def test_a_launch_keeps_kernel_configuration_and_arguments() -> None:
    text = "ns::k<64, T><<<dim3((m + 63) / 64, n), 128, a >> 1, stream>>>(x.data_ptr<float>(), (T)y);"
    launch = only(ir.Launch, body(text))
    assert show(launch.func) == "ns::k<64, T>"
    assert [show(part) for part in (launch.grid, launch.block, launch.shared, launch.stream)] == [
        "dim3(((m + 63) / 64), n)",
        "128",
        "(a >> 1)",
        "stream",
    ]
    assert [show(arg) for arg in launch.args] == ["x.data_ptr<float>()", "c<T>(y)"]


def test_a_launch_with_two_settings_has_no_others() -> None:
    launch = only(ir.Launch, body("k<<<g, b>>>();"))
    assert (launch.shared, launch.stream, launch.args) == (None, None, ())


@pytest.mark.parametrize(
    ("text", "template", "outputs", "inputs"),
    [
        ('asm("mov %0, 1;" : "=r"(a));', "mov %0, 1;", [("=r", "a")], []),
        ('asm volatile("st [%0], %1;" :: "l"(p), "r"(v) : "memory");', "st [%0], %1;", [], [("l", "p"), ("r", "v")]),
        ('asm volatile("bar;" ::: "memory");', "bar;", [], []),
        ('asm volatile("nop;");', "nop;", [], []),
        ('__asm__ __volatile__("a" "b" : "+f"(c[0]), "=f"(c[1]) : "n"(4));', "ab", [("+f", "c[0]"), ("=f", "c[1]")],
         [("n", "4")]),
        ('asm("x %[d];" : [d] "=r"(a) : [s] "r"(b ? c : d));', "x %[d];", [("=r", "a")], [("r", "(b ? c : d)")]),
    ],
)  # fmt: skip
def test_asm_statements(text: str, template: str, outputs: list[Any], inputs: list[Any]) -> None:
    asm = only(ir.Asm, body(text))
    assert isinstance(asm.template, ir.Const) and asm.template.value == template
    assert [(constraint, show(value)) for constraint, value in asm.outputs] == outputs
    assert [(constraint, show(value)) for constraint, value in asm.inputs] == inputs


def test_assignments_are_statements_or_expressions() -> None:
    chain, step, post, call = body("a = b = 1; a += 2; i++; f(j = 3);")
    assert isinstance(chain, ir.Assign) and [show(target) for target in chain.targets] == ["a", "b"]
    assert isinstance(step, ir.AugAssign) and step.op == "+"
    assert isinstance(post, ir.AugAssign) and show(post.value) == "1"
    assert isinstance(call, ir.ExprS) and show(call.value) == "f((j = 3))"


def test_loops_and_branches() -> None:
    loop, each, until, branch = body(
        "for (int i = 0, j = 1; i < n; ++i, j += 2) s += i; for (auto& v : xs) v = 1; do n--; while (n);"
        "if constexpr (N > 1) a(); else if (x) b(); else c();"
    )
    assert isinstance(loop, ir.CFor) and len(loop.init) == 2 and isinstance(loop.step, ir.Binary)
    assert isinstance(each, ir.For) and show(each.target) == "v" and show(each.iterable) == "xs"
    assert isinstance(until, ir.While) and until.once
    assert isinstance(branch, ir.If) and branch.constexpr
    (inner,) = branch.orelse
    assert isinstance(inner, ir.If) and not inner.constexpr and len(inner.orelse) == 1


def test_a_declaration_in_a_condition_stands_before_the_test() -> None:
    first, test, second, other = body("if (int q = f(); q > 1) g(); if (int r = f()) g();")
    assert isinstance(first, ir.Decl) and isinstance(test, ir.If) and show(test.test) == "(q > 1)"
    assert show(second) == "int r = f()" and isinstance(other, ir.If) and show(other.test) == "r"
    declared, loop = body("while (int q = next()) g(q);")
    assert show(declared) == "int q" and isinstance(loop, ir.While) and show(loop.test) == "(q = next())"


def test_a_switch_joins_labels_and_keeps_the_default() -> None:
    switch = only(ir.Switch, body("switch (n) { case 1: case 2: a(); break; case 3: { b(); } default: c(); }"))
    assert [tuple(map(show, values)) for values, _ in switch.cases] == [("1", "2"), ("3",), ()]
    assert [len(statements) for _, statements in switch.cases] == [2, 1, 1]


def test_lambdas_keep_captures_parameters_and_body() -> None:
    func = only(ir.Lambda, body("auto f = [&, n](int i) -> float { return i + q; };")).func
    assert (func.kind, show(func.returns)) == ("lambda", "float")
    assert [(c.name, c.reference) for c in func.captures] == [("n", False), ("q", True)]
    assert [param.name for param in func.params] == ["i"] and len(func.body or ()) == 1
    assert only(ir.Lambda, body("DISPATCH(t, [&] { k<<<1, 2>>>(); });")).func.params == ()
    nodes = body("auto f = [=, &b, d = e + 1, &g = h.x, this] { return a + b + [&] { return c; }(); };")
    taken = next(node for node in cuda.walk(nodes) if isinstance(node, ir.Lambda))
    assert [(c.name, c.reference, c.init and show(c.init)) for c in taken.func.captures] == [
        ("b", True, None), ("d", False, "(e + 1)"), ("g", True, "h.x"), ("this", False, None), ("a", False, None),
        ("c", False, None),
    ]  # fmt: skip


def test_a_struct_keeps_members_methods_constants_and_initialisers() -> None:
    text = (
        "struct alignas(16) S : public Base<int> {\n"
        "  static constexpr int K = 3, L = K * 2;\n  float a[4], *b = nullptr;\n  using V = float4;\n"
        "  __device__ S(int x) : a{x}, Base<int>(3) { run(); }\n"
        "  __device__ float operator()(int i) const { return a[i]; }\n"
        "  __device__ operator float() const { return a[0]; }\n"
        "  template <int Q> static void go() {}\n  enum { ONE = 1, TWO };\n};"
    )
    (struct,) = lowered(text).body
    assert isinstance(struct, ir.ClassDef) and [show(base) for base in struct.bases] == ["Base<int>"]
    assert [show(node) for node in struct.body if isinstance(node, ir.Decl)] == [
        "const int K = 3", "const int L = (K * 2)", "float[4] a", "float* b = None", "int ONE = 1", "int TWO = 2",
    ]  # fmt: skip
    methods = {node.name: node for node in struct.body if isinstance(node, ir.FuncDef)}
    assert list(methods) == ["S", "operator()", "operator float", "go"]
    assert {method.kind for method in methods.values()} == {"method"}
    first, second, third = methods["S"].body or ()
    assert isinstance(first, ir.Assign) and show(first.targets[0]) == "this.a"
    assert isinstance(second, ir.ExprS) and show(second.value) == "this.Base(3)"
    assert isinstance(third, ir.ExprS)


def test_an_anonymous_union_is_a_nameless_member() -> None:
    (struct,) = lowered("struct S { union { float4 v; float f[4]; }; };").body
    assert isinstance(struct, ir.ClassDef)
    union, member = struct.body
    assert isinstance(union, ir.ClassDef) and union.keywords[0][0] == "union"
    assert isinstance(member, ir.Decl) and member.name == "" and member.type is not None
    assert member.type.name == union.name


def test_specialisations_keep_their_arguments() -> None:
    text = "template <int N> void f(); template <> void f<4>() { g(); } template <> struct T<float> { int a; };"
    declared, special, struct = lowered(text).body
    assert isinstance(declared, ir.FuncDef) and declared.body is None
    assert isinstance(special, ir.FuncDef) and [show(arg) for arg in special.specialization] == ["4"]
    assert isinstance(struct, ir.ClassDef) and [show(arg) for arg in struct.specialization] == ["float"]


def test_modules_that_register_functions_survive() -> None:
    text = 'PYBIND11_MODULE(NAME, m) { m.def("run", &run, "doc"); }\nTORCH_LIBRARY(ns, m) { m.def("q"); }'
    calls = calls_in(lowered(text))
    assert [show(call) for call in calls] == ["m.def('run', & run, 'doc')", "m.def('q')"]


def test_includes_and_names() -> None:
    module = lowered(
        "#include <cuda_fp16.h>\nusing namespace nvcuda;\nusing cute::gemm;\nnamespace cg = cooperative_groups;\n"
        "typedef unsigned char byte;\ntemplate <class T> using V = X<T>;"
    )
    first, space, one, alias, old, new = module.body
    assert isinstance(first, ir.Import) and first.module == "cuda_fp16.h"
    assert isinstance(space, ir.Using) and space.namespace == "nvcuda" and space.type is None
    names = [(node.name, show(node.type)) for node in (one, alias, old, new) if isinstance(node, ir.Using)]
    assert names == [("gemm", "cute::gemm"), ("cg", "cooperative_groups"), ("byte", "unsigned char"), ("V", "X<T>")]


def test_structured_bindings_are_an_assignment_to_a_tuple() -> None:
    (statement,) = body("auto [q, r] = split(x);")
    assert isinstance(statement, ir.Assign) and show(statement.targets[0]) == "tuple{q, r}"


def test_dispatch_by_architecture_keeps_the_branch_of_the_target() -> None:
    text = "void f() {\n#if __CUDA_ARCH__ >= 900\n  hopper();\n#else\n  ampere();\n#endif\n}"
    assert [show(call) for call in calls_in(lowered(text, cuda_arch=900))] == ["hopper()"]
    assert [show(call) for call in calls_in(lowered(text, cuda_arch=800))] == ["ampere()"]
    assert [show(call) for call in calls_in(lowered("int a = N(1);", defines={"N": "f"}))] == ["f(1)"]


def test_a_member_template_that_is_called_is_no_comparison() -> None:
    call = only(ir.Call, body("op.add<1>(s, c, e);"))
    assert isinstance(call.func, ir.Attr) and show(call.func.value) == "op" and call.func.name == "add"
    assert [show(arg) for arg in call.func.args or ()] == ["1"] and [show(arg) for arg in call.args] == ["s", "c", "e"]
    sum_of = only(ir.Binary, body("y = 1 + p->add<true>(x);"))
    assert isinstance(sum_of.right, ir.Call) and show(sum_of.left) == "1"
    assert not any(isinstance(node, ir.Call) for node in cuda.walk(body("y = op.add < 1;")))
