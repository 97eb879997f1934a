"""The hot loop of a kernel is found, and every instruction of it is of one kind."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support import RIGHT_KERNEL, TILED_KERNEL, Command, experiment, step

from matmul_sweep.build import machine_code, toolchain
from matmul_sweep.build.binaries import binary_of, compile_into
from matmul_sweep.build.machine_code import Instruction, disassembled, excerpt, hot_loop, kinds, mix
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.tables import LOOP, read_table
from matmul_sweep.process.errors import UserError

needs_nvdisasm = pytest.mark.skipif(not toolchain.nvdisasm(), reason="there is no nvdisasm")


def code(*opcodes: str) -> list[Instruction]:
    """Instructions in order; what follows the opcode are its operands."""
    words = [text.partition(" ") for text in opcodes]
    return [Instruction(16 * i, opcode, rest) for i, (opcode, _, rest) in enumerate(words)]


# Instructions, and the numbers of those of the hot loop.
LOOPS = {
    "that multiplies most and holds no other that multiplies": (
        ["LDG", "FFMA", "BRA 0x10",  # one multiplication
         "LDS", "FFMA", "FFMA", "BRA 0x40", "BAR.SYNC", "BRA 0x30",  # two, in an outer loop
         "DFMA", "DFMA", "DFMA", "EXIT"],  # three, in no loop
        [4, 5, 6]),
    "around one that waits": (
        ["FFMA", "SYNCS.PHASECHK", "BRA UR4,0x10", "FFMA", "BRA 0x0"], [0, 1, 2, 3, 4]),
    # ptxas puts what seldom runs at the end, here the second look at an mbarrier: no loop.
    "with a way back from code behind the rest": (
        ["SYNCS.PHASECHK", "BRA UR4,0x80",  # not yet: look again below
         "HGMMA", "HGMMA", "IADD3", "BRA UR5,0x0",  # the loop
         "STG", "EXIT", "SYNCS.PHASECHK", "BRA UR4,0x80", "BRA 0x20"],
        [0, 1, 2, 3, 4, 5, 8, 9, 10]),
    "of the tensor cores beside one of multiply-adds": (
        ["HGMMA.64x128x16.F32", "BRA 0x0", "FFMA", "FFMA", "BRA 0x20"], [0, 1]),
    "none that multiplies": (
        ["FFMA", "FFMA", "IADD3", "BRA 0x20", "BRA 0x60", "EXIT", "NOP"], []),
}  # fmt: skip


@pytest.mark.parametrize(("instructions", "numbers"), LOOPS.values(), ids=LOOPS)
def test_the_hot_loop_is_the_one(instructions, numbers):
    assert [found.place // 16 for found in hot_loop(code(*instructions))] == numbers


@pytest.mark.parametrize(
    ("opcode", "kind"),
    [
        ("FFMA", "ffma"), ("DFMA", "dfma"), ("HMMA.16816.F32.BF16", "tensor"),
        ("HGMMA.64x256x16.F32.BF16", "tensor"), ("HFMA2.MMA", "rest"),
        ("LDGSTS.E.BYPASS.128", "copies"), ("UTMALDG.2D", "copies"), ("UBLKCP.S.G", "copies"),
        ("LDG.E.U16.CONSTANT", "global_loads_32"), ("LD.E.64", "global_loads_64"),
        ("LDSM.16.M88.4", "shared_loads_128"), ("LDSM.16.MT88.2", "shared_loads_64"),
        ("STG.E", "stores"), ("STL", "local"), ("LDGDEPBAR", "barriers"),
        ("WARPGROUP.ARRIVE", "barriers"), ("SYNCS.ARRIVE.TRANS64", "barriers"),
        ("IADD3.X", "integer"), ("UIADD3", "integer"), ("IMAD.WIDE.U32", "integer"),
        ("IMAD.MOV.U32", "rest"), ("ULDC.64", "rest"), ("BSYNC", "rest"),
    ],
)  # fmt: skip
def test_an_instruction_is_of_its_kind(opcode, kind):
    assert Instruction(0, opcode).kind == kind
    assert mix([Instruction(0, opcode)]) == dict.fromkeys(kinds(), 0) | {kind: 1}


def test_an_instruction_that_never_runs_is_no_load():
    assert Instruction(0, "LDS", "RZ,[RZ]", "@!PT").kind == "rest"


def test_an_excerpt_shows_the_place_with_most_kinds():
    loop = code(*["FFMA"] * 30, "LDS.128", "IADD3", *["FFMA"] * 30, "BRA 0x0")
    shown = excerpt(loop)
    assert len(shown) == machine_code.EXCERPT
    assert {"LDS.128", "IADD3", "FFMA"} <= {*shown}
    assert excerpt(loop[:3]) == ["FFMA"] * 3


STEP = {"adds": "nothing"}  # what makes an entry a step of a ladder


def compiled(path: Path) -> Path:
    """The cubin of the kernel `mine`, with its record beside it."""
    variant = load_catalogue(path).variant("mine")
    compile_into(variant, "sm_90", path.parent)
    return binary_of(variant, path.parent / "sm_90")


def row(command: Command, catalogue: Path) -> Any:
    """The row of the kernel `mine`, which was compiled."""
    folder = catalogue.parent
    run = experiment(catalogue=catalogue)
    output = step(command, "disassemble", run, folder, "instructions.csv", "--build", folder)
    [found] = read_table("instructions.csv", output).itertuples()
    return found


@needs_nvdisasm
def test_the_loop_of_a_tiled_kernel_is_what_its_source_says(command, entry, write_catalogue):
    """A slab: two elements loaded and stored, two barriers, 16 multiplications, unrolled."""
    catalogue = write_catalogue({"mine": entry(**STEP)}, mine=TILED_KERNEL)
    cubin = compiled(catalogue)
    found = row(command, catalogue)
    assert (found.status, found.reason) == ("ok", "")
    assert (found.ffma, found.dfma, found.tensor) == (16, 0, 0)
    assert (found.global_loads_32, found.stores, found.barriers) == (2, 2, 2)
    loads = {32: found.shared_loads_32, 64: found.shared_loads_64, 128: found.shared_loads_128}
    assert loads[32] == 16 and sum(width // 32 * count for width, count in loads.items()) == 32
    assert found.loop_instructions == sum(getattr(found, kind) for kind in LOOP)
    assert found.code_bytes == 16 * len(disassembled(cubin, "mine")) > found.loop_start
    assert found.registers == json.loads(cubin.with_suffix(".json").read_text())["registers"]
    assert len(found.excerpt.split("; ")) == machine_code.EXCERPT


@needs_nvdisasm
def test_a_function_that_a_binary_lacks_is_named(entry, write_catalogue):
    cubin = compiled(write_catalogue({"mine": entry()}))
    with pytest.raises(UserError, match="no function yours"):
        disassembled(cubin, "yours")
    cubin.write_bytes(b"nothing")
    with pytest.raises(UserError, match="nvdisasm: "):
        disassembled(cubin, "mine")


ONCE = re.sub(r"    for .*\n +sum", "    sum", RIGHT_KERNEL).replace(
    "[(size_t)row * k + p]", "[row]"
)


@pytest.mark.parametrize(
    ("source", "program", "status", "said"),
    [
        pytest.param(ONCE.replace("(size_t)p * n + ", ""), toolchain.nvdisasm(), "skipped",
                     "no loop of it multiplies", marks=needs_nvdisasm),
        (RIGHT_KERNEL, None, "skipped", "there is no nvdisasm"),
        ("int;", None, "failed", "does not compile"),
    ],
    ids=["no loop", "no disassembler", "does not compile"],
)  # fmt: skip
def test_a_row_says_why_there_is_no_machine_code(
    command, entry, write_catalogue, monkeypatch, source, program, status, said
):
    monkeypatch.setattr(toolchain, "nvdisasm", lambda: program)
    catalogue = write_catalogue({"mine": entry(**STEP)}, mine=source)
    compiled(catalogue)
    found = row(command, catalogue)
    assert found.status == status
    assert said in found.reason
