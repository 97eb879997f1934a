"""Inline PTX on the CPU: each instruction against what NumPy or the PTX ISA says."""

import numpy as np
import pytest
from emulated import LANES, kernel, launched, mistakes

from matmul_sweep.classroom.cuda_on_cpu.emulation import NotRunnable
from matmul_sweep.classroom.cuda_on_cpu.ptx import translated

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("unoptimised")]

# What each of 64 threads does with x = its number, u = 3·x the shared address `to` of s[x], and C.
WORDS = [
    ('asm("add.s32 %0, %1, -5;" : "=r"(r) : "r"(x)); y = r;', LANES - 5),
    ('asm("mul.wide.u32 %0, %1, %2;" : "=l"(w) : "r"(u), "r"(0x40000000u)); y = w >> 30;',
     3 * LANES),
    ('asm("mad.lo.s32 %0, %1, %1, %0;" : "+r"(r) : "r"(x)); y = r;', LANES**2 + 7),
    ('asm("fma.rn.f32 %0, %1, %1, 0f3F800000;" : "=f"(y) : "f"(A[x]));', LANES**2 + 1),
    ('asm("{.reg .pred p, q; setp.gt.s32 p, %1, 40; selp.b32 %0, 1, 2, p; @!p bra END;\\n'
     ' mov.b32 %0, 9; // skipped\\nEND: }" : "=r"(r) : "r"(x)); y = r;',
     np.where(LANES > 40, 9, 2)),
    ('asm("shl.b32 %0, %1, 2;\\n\\txor.b32 %0, %0, 1;" : "=r"(r) : "r"(x)); y = r;', 4 * LANES + 1),
    ('asm("mov.u32 %0, %%laneid;" : "=r"(r)); y = r;', LANES % 32),
    ('asm("mov.u32 %0, %%ntid.x;" : "=r"(r)); y = r;', 64),
    ('asm volatile("st.shared.f32 [%0], %1;" :: "r"(to), "f"(A[x] + 1)); __syncthreads(); y'
     ' = s[63 - x];',
     64 - LANES),
    ('s[x] = A[x]; __syncthreads(); float4 v; if (x % 4 == 0) { asm volatile("ld.shared.v4.f32 '
     '{%0, %1, %2, %3}, [%4+0];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(to));'
     " y = v.x + 10 * v.w; }", np.where(LANES % 4 == 0, 11 * LANES + 30, 0)),
    ('asm("ld.global.nc.L1::no_allocate.L2::128B.f32 %0, [%1+4];" : "=f"(y) : "l"(A + x));'
     ' float z; asm("ld.global.f32 %0, [%1+-4];" : "=f"(z) : "l"(A + x + 2)); y += z;',
     2 * ((LANES + 1) % 64)),
    ('asm volatile("red.shared.add.f32 [%0], %1;" :: "r"(to - x * 4), "f"(A[x]));'
     ' __syncthreads(); y = s[0];',
     LANES.sum()),
    ('asm("{.reg .b64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t;}" : "=r"(u) : "l"(s +'
     ' x)); y = u == to;', 1),
    ('asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(A[x] / 3)); y = h;',
     (LANES / 3).astype(np.float16).view(np.uint16)),
    ('asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(A[x])); y = __int_as_float(r);', LANES),
    ('half2 a = __floats2half2_rn(x, 1); asm("fma.rn.f16x2 %0, %1, %1, %1;" : "=r"(*(unsigned*)&a)'
     ' : "r"(*(unsigned*)&a)); y = float(a.x) + 4096 * float(a.y);', LANES**2 + LANES + 8192),
    ('asm volatile("bar.sync 1, 64;" ::: "memory"); y = 3;', 3),
    ('int to16 = to & ~15; if (x % 4 == 0) asm volatile("cp.async.cg.shared.global [%0],'
     ' [%1], 16, %2;"'
     ' :: "r"(to16), "l"(A + x), "r"(x == 0 ? 16 : 4)); asm volatile("cp.async.commit_group;");'
     ' asm volatile("cp.async.wait_group 0;"); __syncthreads(); y = s[x];',
     np.where((LANES < 4) | (LANES % 4 == 0), LANES, 0)),
]  # fmt: skip


@pytest.mark.parametrize("watch", [False, True])
def test_an_instruction_means_what_ptx_says(watch, tmp_path):
    cases = "".join(f"case {b}: {{ {body} break; }}\n" for b, (body, _) in enumerate(WORDS))
    text = kernel(
        "__shared__ __align__(16) float s[64]; int x = threadIdx.x, r = 7; unsigned u = 3 * x;\n"
        "unsigned short h; unsigned long long w; float y = 0; s[x] = 0; __syncthreads();\n"
        f"unsigned to = __cvta_generic_to_shared(s + x); switch (blockIdx.x) {{ {cases} }}\n"
        "C[64 * blockIdx.x + x] = y;",
        "#include <cuda_fp16.h>",
    )
    found = launched(text, tmp_path, watch, blocks=len(WORDS))
    if watch:
        assert not mistakes(found)
        found = found.c
    rows = zip(WORDS, found.reshape(-1)[: 64 * len(WORDS)].reshape(-1, 64), strict=True)
    assert not {body: got for (body, wanted), got in rows if (got != wanted).any()}


# A shape, the types of A and of the sums, and where the PTX ISA says that a thread's element number
# i of A lies (row, column), and of B (row); g is the thread's number over 4, t the rest.
SHORT = ("i / 2 % 2 * 8 + g", "t * 2 + i % 2 + i / 4 * 8", "t * 2 + i % 2 + i / 2 * 8")
SINGLE = ("g + i % 2 * 8", "t + i / 2 * 4", "t + i * 4")
BYTE = ("i / 4 % 2 * 8 + g", "t * 4 + i % 4 + i / 8 * 16", "t * 4 + i % 4 + i / 4 * 16")
MATRICES = [
    ((16, 8, 16), "f16", "f32", *SHORT),
    ((16, 8, 16), "bf16", "f32", *SHORT),
    ((16, 8, 16), "f16", "f16", *SHORT),
    ((16, 8, 8), "f16", "f32", *SHORT),
    ((16, 8, 8), "bf16", "f32", *SHORT),
    ((16, 8, 8), "tf32", "f32", *SINGLE),
    ((16, 8, 4), "tf32", "f32", *SINGLE),
    ((16, 8, 16), "s8", "s32", *BYTE),
    ((16, 8, 32), "u8", "s32", *BYTE),
    ((8, 8, 4), "f64", "f64", "g", "t", "t"),
    ((16, 8, 8), "f64", "f64", *SINGLE),
]
NUMBERS = {"f16": "half", "bf16": "__nv_bfloat16", "tf32": "float", "s8": "signed char",
           "u8": "unsigned char", "f64": "double", "f32": "float", "s32": "int"}  # fmt: skip
BYTES = {"f16": 2, "bf16": 2, "s8": 1, "u8": 1, "f64": 8}


@pytest.mark.parametrize(
    "case", MATRICES, ids=lambda case: "-".join(map(str, (*case[0], *case[1:3])))
)
def test_mma_multiplies_fragments(case, tmp_path):
    (m, n, k), of_a, of_sum, row_a, column_a, row_b = case
    packed = 1 if of_a == "f64" else 4 // BYTES.get(of_a, 4)
    words_a, words_b, sums = m * k // 32 // packed, k * n // 32 // packed, m * n // 32
    words_c = sums // 2 if of_sum == "f16" else sums
    letter = {"f64": "d", "f32": "f", "s32": "r", "f16": "r"}[of_sum]
    word = "double" if of_a == "f64" else "unsigned"
    sum_word = {"f32": "float", "f64": "double", "s32": "int", "f16": "unsigned"}[of_sum]
    numbers = iter(range(99))
    groups = [
        "{" + ", ".join(f"%{next(numbers)}" for _ in range(count)) + "}"
        for count in (words_c, words_a, words_b)
    ]
    factor = "d" if of_a == "f64" else "r"
    listed = [
        ", ".join(f'"{constraint}"({name}[{i}])' for i in range(count))
        for constraint, name, count in (
            (f"+{letter}", "c", words_c), (factor, "a", words_a), (factor, "b", words_b)
        )
    ]  # fmt: skip
    body = f"""int g = threadIdx.x / 4, t = threadIdx.x % 4;
    {word} a[{words_a}], b[{words_b}]; {sum_word} c[{words_c}];
    auto *ea = ({NUMBERS[of_a]}*)a, *eb = ({NUMBERS[of_a]}*)b; auto* ec = ({NUMBERS[of_sum]}*)c;
    const float *B = A + {m * k}, *D = B + {k * n};
    for (int i = 0; i < {words_a * packed}; i++) ea[i] = A[({row_a}) * {k} + {column_a}];
    for (int i = 0; i < {words_b * packed}; i++) eb[i] = B[({row_b}) * {n} + g];
    for (int i = 0; i < {sums}; i++) ec[i] = D[(g + i / 2 * 8) * {n} + t * 2 + i % 2];
    asm volatile("mma.sync.aligned.m{m}n{n}k{k}.row.col.{of_sum}.{of_a}.{of_a}.{of_sum} "
        "{groups[0]}, {groups[1]}, {groups[2]}, {groups[0]};"
        : {listed[0]} : {listed[1]}, {listed[2]});
    for (int i = 0; i < {sums}; i++) C[(g + i / 2 * 8) * {n} + t * 2 + i % 2] = ec[i];"""
    rng = np.random.default_rng(0)
    low = 0 if of_a == "u8" else -4
    a, b, d = (rng.integers(low, 5, extents) for extents in ((m, k), (k, n), (m, n)))
    values = np.concatenate([a.ravel(), b.ravel(), d.ravel()])
    found = launched(kernel(body, "#include <cuda_fp16.h>"), tmp_path, threads=32, values=values)
    np.testing.assert_array_equal(found.ravel()[: m * n].reshape(m, n), a @ b + d)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_ldmatrix_and_stmatrix_move_matrices(count, trans, tmp_path):
    """Each lane gets two elements of each matrix, and stores them where the other one has them."""
    registers = ", ".join(f"%{i}" for i in range(count))
    stored = ", ".join(f"%{i + 1}" for i in range(count))
    listed = ", ".join(f'"{{}}"(r[{i}])' for i in range(count))
    body = f"""__shared__ __align__(16) half in[256], out[256]; unsigned r[4]; int x = threadIdx.x;
    for (int i = x; i < 256; i += 32) {{ in[i] = A[i]; out[i] = 0.0f; }}
    __syncthreads();
    unsigned from = __cvta_generic_to_shared(in + 8 * x);
    unsigned to = __cvta_generic_to_shared(out + 8 * x);
    asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 "
        "{{{registers}}}, [%{count}];"
        : {listed.replace("{}", "=r")} : "r"(from));
    half2 first = *(half2*)&r[0]; C[256 + x * 2] = first.x; C[257 + x * 2] = first.y;
    asm volatile("stmatrix.sync.aligned.m8n8.x{count}.shared.b16 [%0], {{{stored}}};"
        :: "r"(to), {listed.replace("{}", "r")});
    __syncthreads();
    for (int i = x; i < 256; i += 32) C[i] = out[i];"""
    values = np.arange(400)
    found = launched(kernel(body, "#include <cuda_fp16.h>"), tmp_path, True, 32, values=values)
    assert not mistakes(found)
    c = found.c.ravel()
    matrices = values[:256].reshape(4, 8, 8)
    matrices = matrices.transpose(0, 2, 1) if trans else matrices
    np.testing.assert_array_equal(c[256:320], matrices[0].ravel())
    np.testing.assert_array_equal(c[: 64 * count], matrices[:count].ravel())
    assert not c[64 * count : 256].any()


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ('asm volatile("wgmma.fence.sync.aligned;");', "wgmma.fence.sync.aligned"),
        ('asm("add.s32 %0, %0, 1; vadd.s32.s32.s32 %0, %0, %0;" : "+r"(x));', "vadd.s32.s32.s32"),
        ('asm volatile("cp.async.bulk.commit_group;");', "cp.async.bulk.commit_group"),
        (f'asm("{"add.s32 %0, %0, 1;" * 25}" : "+r"(x));', "beyond the 24th of one asm"),
    ],
)
def test_an_unknown_instruction_is_named(statement, named, tmp_path):
    with pytest.raises(NotRunnable, match=rf"on the CPU: PTX instruction {named}$"):
        launched(kernel(f"int x = 0; {statement} C[0] = x;"), tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        'asm volatile("{ // a:b\\n"\n  "mov.b32 %0, ")";}"\n : "=r"(x[f(1, 2)])\n : "r"(a ?'
        ' b : c)\n : "memory");',
        '#define M(x, y) \\\n  __asm__ __volatile__ ( \\\n "mov.b32 %0, %1;" \\\n ::'
        ' "n"(x), \\\n "r"(y) \\\n : "memory" \\\n )',
        'asm("st.u32 [%0], %1;"\n :\n : "r"(x), "r"(a)\n :);',
        'asm("add.u32 %0, %1, %2;" : "=r"(x) : "r"(a)\n"r"(b));',  # nvcc does without the comma
    ],
)  # fmt: skip
def test_a_statement_keeps_its_lines(text):
    after = translated(text)
    assert "asm" not in after
    assert after.count("\n") == text.count("\n")
    assert [line.endswith("\\") for line in after.splitlines()] == [
        line.endswith("\\") for line in text.splitlines()
    ]


def test_what_cannot_be_translated_stays():
    text = 'asm("..." : OPERANDS); asm volatile("...'
    assert translated(text) == text
