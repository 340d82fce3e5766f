"""Functions of numbers: what languages call them."""

from __future__ import annotations

from kbh_lint.ops.operation import Flag, Operation, op


def _single(*names: str, flag: Flag = "") -> tuple[Operation, ...]:
    """Functions of C's library that only CUDA has, in double and in single precision."""
    return tuple(op(name, "function", flag=flag, cuda=f"{name} {name}f") for name in names)


NUMBERS: tuple[Operation, ...] = (
    # --- exponentials
    op("exp", "function", flag="exp", cuda="exp expf __expf hexp h2exp __nv_expf fast_exp",
       python="exp expf fast_expf"),
    op("exp2", "function", flag="exp", cuda="exp2 exp2f ex2 hexp2 h2exp2 __exp2f_approx", python="exp2 exp2f",
       ptx="ex2"),
    op("exp10", "function", flag="exp", cuda="exp10 exp10f __exp10f", python="exp10"),
    op("expm1", "function", flag="exp", cuda="expm1 expm1f", python="expm1"),
    op("tanh", "function", flag="exp", cuda="tanh tanhf __tanhf htanh h2tanh", python="tanh fast_tanhf", ptx="tanh"),
    op("sinh", "function", flag="exp", cuda="sinh sinhf", python="sinh"),
    op("cosh", "function", flag="exp", cuda="cosh coshf", python="cosh"),
    op("sigmoid", "function", flag="exp", python="sigmoid"),
    op("softplus", "function", flag="exp", python="softplus"),
    op("ldexp", "function", flag="exp", cuda="ldexp ldexpf scalbn scalbnf", python="ldexp ldexpf scalbn scalbnf"),
    op("pow", "function", cuda="pow powf __powf", python="pow powf"),
    # --- roots, logarithms, angles
    op("log", "function", cuda="log logf __logf hlog", python="log fast_logf"),
    op("log2", "function", cuda="log2 log2f __log2f hlog2", python="log2", ptx="lg2"),
    op("log10", "function", cuda="log10 log10f", python="log10"),
    op("log1p", "function", cuda="log1p log1pf", python="log1p"),
    op("sqrt", "function", cuda="sqrt sqrtf __fsqrt_rn hsqrt __builtin_sqrtf", python="sqrt sqrt_rn sqrtf",
       ptx="sqrt"),
    op("rsqrt", "function", cuda="rsqrt rsqrtf __frsqrt_rn hrsqrt h2rsqrt", python="rsqrt rsqrt_rn", ptx="rsqrt"),
    op("cbrt", "function", cuda="cbrt cbrtf"),
    op("rcp", "function", cuda="hrcp h2rcp __frcp_rn", python="rcp_rn", cute="rcp_approx", ptx="rcp"),
    op("sin", "function", cuda="sin sinf __sinf", python="sin", ptx="sin"),
    op("cos", "function", cuda="cos cosf __cosf", python="cos", ptx="cos"),
    op("tan", "function", cuda="tan tanf", python="tan"),
    op("erf", "function", cuda="erf erff", python="erf"),
    op("erfc", "function", cuda="erfc erfcf"),
    op("atan", "function", cuda="atan atanf"),
    op("atan2", "function", cuda="atan2 atan2f", python="atan2"),
    op("lgamma", "function", cuda="lgamma lgammaf"),
    op("hypot", "function", cuda="hypot hypotf", python="hypot"),
    op("fmod", "function", cuda="fmod fmodf", python="fmod"),
    op("copysign", "function", cuda="copysign copysignf", python="copysign", ptx="copysign"),
    op("sincos", "function", cuda="sincos sincosf sincospi sincospif __sincosf"),
    *_single(
        "acos", "acosh", "asin", "asinh", "atanh", "cospi", "erfcinv", "erfcx", "erfinv", "fdim", "ilogb", "j0", "j1",
        "llround", "logb", "lrint", "lround", "nextafter", "norm3d", "norm4d", "normcdf", "normcdfinv", "rcbrt",
        "remainder", "rhypot", "rnorm3d", "rnorm4d", "sinpi", "tgamma", "y0", "y1",
    ),
    op("random", "function", python="rand randint philox"),
    # --- whole numbers, tests, signs
    op("floor", "whole", cuda="floor floorf", python="floor"),
    op("ceil", "whole", cuda="ceil ceilf", python="ceil"),
    op("trunc", "whole", cuda="trunc truncf", python="trunc"),
    op("rint", "whole", cuda="rint rintf", python="rint"),
    op("round", "whole", cuda="round roundf", python="round"),
    op("nearbyint", "whole", cuda="nearbyint nearbyintf", python="nearbyint"),
    op("llrint", "function", cuda="llrint llrintf", python="llrint"),
    op("isnan", "test", cuda="isnan __hisnan", python="isnan"),
    op("isinf", "test", cuda="isinf __hisinf", python="isinf"),
    op("isfinite", "test", cuda="isfinite", python="finitef"),
    op("signbit", "function", cuda="signbit"),
    op("abs", "function", cuda="fabs fabsf abs __habs __habs2 labs llabs __builtin_fabsf", python="abs fabs",
       ptx="abs"),
    op("negative", "function", cutile="negative"),
    op("neg", "function", cuda="__hneg __hneg2", ptx="neg"),
    op("saturate", "function", cuda="__saturatef"),
    op("difference", "function", cuda="__usad __sad __vabsdiffu4", ptx="sad"),
    op("mulhi", "function", cuda="mul24 __mulhi __umulhi __umul64hi", python="umulhi mulhi"),
    # --- operators by name
    op("add", "arithmetic", symbol="+", cutile="add", python="add_rn", triton="add", ptx="add",
       cuda="__fadd_rn __fadd_rz __fadd_rd __fadd_ru __hadd __hadd2 __hadd_rn __hadd2_rn __dadd_rn __vadd4 "
            "__hadd_sat"),
    op("sub", "arithmetic", symbol="-", cutile="sub", python="sub_rn", triton="sub", ptx="sub",
       cuda="__fsub_rn __fsub_rz __hsub __hsub2 __hsub_rn __hsub2_rn __dsub_rn __vsub4 __vsubss4"),
    op("mul", "arithmetic", symbol="*", cutile="mul", python="mul_rn", triton="mul", ptx="mul mul24",
       cuda="__fmul_rn __fmul_rz __fmul_rd __fmul_ru __hmul __hmul2 __hmul_rn __hmul2_rn __dmul_rn __mul24 "
            "__umul24 __hmul_sat"),
    op("div", "arithmetic", symbol="/", cutile="truediv", cuda="__fdividef __fdiv_rn __hdiv __h2div __ddiv_rn fdividef",
       python="div_rn fdiv fast_dividef dividef fdividef", ptx="div"),
    op("rem", "function", ptx="rem"),
    op("fma", "function", triton="fma", cute="fma", tilelang="fma", ptx="fma mad",
       cuda="fmaf fma __fmaf_rn __fmaf_rz __fmaf_ieee_rn __hfma __hfma2 __fma_rn __hfma_relu __hfma2_relu __hfma_rn"),
    op("fma_rn", "function", python="fma_rn"),
    op("packed_add", "arithmetic", symbol="+", cute="add_packed_f32x2"),
    op("packed_sub", "arithmetic", symbol="-", cute="sub_packed_f32x2"),
    op("packed_mul", "arithmetic", symbol="*", cute="mul_packed_f32x2"),
    op("packed_fma", "function", cute="fma_packed_f32x2"),
    # --- choices
    op("max", "extreme", cutile="maximum", triton="maximum", cute="fmax max maximum", tilelang="max", ptx="max",
       cuda="max fmaxf fmax __hmax __hmax2 __hmax_nan umax llmax ullmax imax __vmaxs4 __vmaxu4 __vimax3_s32"),
    op("min", "extreme", cutile="minimum", triton="minimum", cute="fmin min minimum", tilelang="min", ptx="min",
       cuda="min fminf fmin __hmin __hmin2 __hmin_nan umin llmin ullmin imin __vmins4 __vminu4"),
    op("clamp", "extreme", flag="max", cuda="clamp", python="clamp"),
    op("where", "function", cutile="where", triton="where", cute="where select_", tilelang="if_then_else Select where"),
    op("select", "function", ptx="selp slct"),
    op("xor_sum", "function", flag="reduce", python="xor_sum"),
    # --- bits
    op("popc", "bits", result="i32", python="popc", cute="popc", ptx="popc",
       cuda="__popc __popcll __builtin_popcount"),
    op("ffs", "bits", result="i32", python="ffs", cuda="__ffs __ffsll __fns __builtin_ctz", ptx="bfind fns"),
    op("clz", "bits", result="i32", python="clz", cute="clz", cuda="__clz __clzll __builtin_clz", ptx="clz"),
    op("brev", "bits", result="i32", python="brev", ptx="brev"),
    op("reversed", "bits", cuda="__brev __brevll"),
    op("funnel", "bits", cuda="__funnelshift_l __funnelshift_r __funnelshift_rc __funnelshift_lc", ptx="shf"),
    op("bitwise", "bits", ptx="and or xor not shl shr lop3 bfe bfi vadd dp2a"),
    op("mask", "bits", ptx="bmsk szext testp"),
)  # fmt: skip
