"""Matrix products and exponentials of Numba loops in vector registers, or in the tiles of AMX.

LLVM keeps the sums of a loop over arrays in memory, since it cannot know that the arrays do not overlap, and
takes half of the width that AVX-512 has. So these loops are written in LLVM's own language.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numba import config, types
from numba.core import cgutils, codegen
from numba.extending import intrinsic

from mexma_cli.numerics.compiling import apart, called

LANES = 32
"""Rows and columns for which arrays have room are a multiple of this."""
_FEATURES = (config.CPU_FEATURES or codegen.get_host_cpu_features()).split(",")
# What stays in registers: so many rows, and so many vectors of 16 columns.
_ROWS, _VECTORS = (8, 2) if "+avx512f" in _FEATURES else (4, 1)

ir: Any = cgutils.ir
_BYTE, _WORD, _SIZE, _FLOAT = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()
_FLOATS, _WORDS = ir.VectorType(_FLOAT, 16), ir.VectorType(_WORD, 16)
_TILES = (
    b"\1" + bytes(15) + b"\x40\0" * 8 + bytes(16) + b"\x10" * 8 + bytes(8)
)  # eight of 16 rows of 64 bytes


@functools.cache
def pairs() -> type[np.generic] | None:
    """The type that stands for pairs of bfloat16 numbers in `multiply`: int32 lets AMX multiply them, uint32
    AVX-512 BF16; None if the processor has neither."""
    return _type_of("+amx-bf16", "+avx512bf16")


@functools.cache
def quads() -> type[np.generic] | None:
    """The type that stands for four neighbours, of uint8 in a row of the left matrix, of int8 in a column of
    the right one: int32 for AMX, uint32 for AVX-512 VNNI; None if the processor has neither."""
    return _type_of("+amx-int8", "+avx512vnni")


def _type_of(amx: str, avx: str) -> type[np.generic] | None:
    if amx in _FEATURES and _begin_amx():
        return np.int32
    return np.uint32 if avx in _FEATURES else None


@functools.cache
def _begin_amx() -> bool:
    """Ask Linux for AMX's tiles (arch_prctl: ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA); whether this process
    has them."""
    return sys.platform == "linux" and ctypes.CDLL(None).syscall(158, 0x1023, 18) == 0


@called
def multiply(
    left: np.ndarray, right: np.ndarray, out: np.ndarray, sizes: tuple[int, int, int], places: tuple[int, int]
) -> None:
    """out[i, b + j] = sum over r < inner of left[i, a + r] * right[r, b + j], for i < rows and j < columns,
    and somewhat further: rows are taken by 8 and columns by `LANES`, for which all three arrays need room.

    In place of float32, left and right may have `pairs` along r: left[i, r] is two neighbours in a row of the
    left matrix, and right[r, j] two in a column of the right one; or `quads`, of whose products the sums are
    exact, and out is int32. AMX takes rows by `LANES`, too, and `inner` by 16, and its `tiles` have to be
    there.

    Args:
        sizes: rows, inner, columns.
        places: a, b; int64, since Numba compiles again for a constant.
    """
    apart()
    _multiply(left, right, out, sizes, places)


@intrinsic
def _multiply(_: Any, left: Any, right: Any, out: Any, sizes: Any, places: Any) -> Any:
    def write(code: _Code) -> None:
        tiled = left.dtype == types.int32
        block, height, width = (_in_tiles, 32, 32) if tiled else (_in_registers, _ROWS, 16 * _VECTORS)
        rows, _, columns = code.numbers(3)
        with code.steps(rows, height) as i, code.steps(columns, width) as j:
            block(code, i, j)

    return types.void(left, right, out, sizes, places), _written(write)


@intrinsic
def tiles(_: Any, left: Any, wanted: Any) -> Any:
    """Whether this thread has tiles from now on, if AMX multiplies matrices of the type of `left`."""

    def write(code: _Code) -> None:
        if left.dtype != types.int32:
            return
        shapes = ir.Constant(ir.ArrayType(_BYTE, len(_TILES)), bytearray(_TILES))
        with code.builder.if_else(code.given[1]) as (then, otherwise):
            with then:
                where = cgutils.global_constant(code.builder, "tiles", shapes)
                code.call("x86.ldtilecfg", ir.VoidType(), code.builder.bitcast(where, _BYTE.as_pointer()))
            with otherwise:
                code.call("x86.tilerelease", ir.VoidType())

    return types.void(left, wanted), _written(write)


@intrinsic
def largest(_: Any, x: Any, i: Any, size: Any) -> Any:
    """The largest of x[i, :size], float32; the size is a multiple of 16."""

    def write(code: _Code) -> Any:
        b, top = code.builder, code.variable(-np.inf)
        with code.steps(code.number(2), 16) as j:
            b.store(code.larger(b.load(code.at(0, code.number(1), j), align=4), b.load(top)), top)
        return code.folded(top, code.larger)

    return types.float32(x, i, size), _written(write)


@intrinsic
def scale(_: Any, x: Any, i: Any, first: Any, size: Any, factor: Any) -> Any:
    """Multiply x[i, first : first + size], float32, in place, and up to 15 numbers behind."""

    def write(code: _Code) -> None:
        b, factor = code.builder, code.spread(code.given[4])
        with code.steps(code.number(3), 16) as j:
            where = code.at(0, code.number(1), b.add(code.number(2), j))
            b.store(b.fmul(b.load(where, align=4), factor), where, align=4)

    return types.void(x, i, first, size, factor), _written(write)


@intrinsic
def exponentials(_: Any, x: Any, i: Any, size: Any, norm: Any, out: Any) -> Any:
    """out[i, :size] = exp(x[i, :size] - norm), and the sum, float32.

    exp(x) is 2**n exp(x - n log 2), and the second factor is a polynomial, exact to 1e-7 (Cephes' expf).
    Smaller results than exp(-87) are rounded up to it, so that none is a denormal number.

    Args:
        x: float32; the size is a multiple of 16.
        out: float32, or bfloat16 as uint16, rounded to nearest.
    """

    def write(code: _Code) -> Any:
        b, add_product, total = code.builder, code.add_product, code.variable(0)
        norm = code.spread(code.given[3])
        with code.steps(code.number(2), 16) as j:
            given = b.fsub(b.load(code.at(0, code.number(1), j), align=4), norm)
            given = b.select(b.fcmp_ordered("<", given, _all(-87)), _all(-87), given)
            n = code.call("floor.v16f32", _FLOATS, add_product(given, _all(1.44269504), _all(0.5)))
            r = add_product(n, _all(2.12194440e-4), add_product(n, _all(-0.693359375), given))
            p = _all(1.9875691500e-4)
            for term in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
                p = add_product(p, r, _all(term))
            p = b.fadd(add_product(b.fmul(p, r), r, r), _all(1))
            power = b.shl(b.add(b.fptosi(n, _WORDS), _all(127, _WORD)), _all(23, _WORD))
            p = b.fmul(p, b.bitcast(power, _FLOATS))
            b.store(b.fadd(b.load(total), p), total)
            p, size = (code.rounded(p), 2) if out.dtype == types.uint16 else (p, 4)
            b.store(p, code.at(4, code.number(1), j, p.type), align=size)
        return code.folded(total, b.fadd)

    return types.float32(x, i, size, norm, out), _written(write)


def _written(write: Callable[[_Code], Any]) -> Callable[..., Any]:
    """The function by which Numba has the code of an intrinsic written, whose result is None or a value."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found = write(_Code(context, builder, signature.args, arguments))
        return context.get_dummy_value() if found is None else found

    return code


class _Code:
    """Code that is being written, and its arguments, which are known by their places."""

    def __init__(self, context: Any, builder: Any, kinds: Any, given: Any) -> None:
        self.context, self.builder, self.kinds, self.given = context, builder, kinds, given

    @contextmanager
    def steps(self, stop: Any, step: int) -> Iterator[Any]:
        """The body of a loop from 0 on, and its number."""
        with cgutils.for_range_slice(self.builder, _size(0), stop, _size(step)) as (number, _):
            yield number

    def call(self, name: str, result: Any, *given: Any) -> Any:
        """The result of one of LLVM's own functions."""
        kind = ir.FunctionType(result, [one.type for one in given])
        return self.builder.call(
            cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.{name}"), given
        )

    def number(self, argument: int) -> Any:
        return self.context.cast(self.builder, self.given[argument], self.kinds[argument], types.intp)

    def numbers(self, argument: int) -> list[Any]:
        """The numbers of a tuple of int64."""
        return cgutils.unpack_tuple(self.builder, self.given[argument])

    def at(self, argument: int, row: Any, column: Any, kind: Any = _FLOATS) -> Any:
        """Where something in a matrix is."""
        array = self.context.make_array(self.kinds[argument])(
            self.context, self.builder, self.given[argument]
        )
        found = cgutils.get_item_pointer(
            self.context, self.builder, self.kinds[argument], array, [row, column]
        )
        return self.builder.bitcast(found, kind.as_pointer())

    def variable(self, value: float, kind: Any = _FLOAT) -> Any:
        """16 numbers that change, all alike at first."""
        found = cgutils.alloca_once(self.builder, ir.VectorType(kind, 16))
        self.builder.store(_all(value, kind), found)
        return found

    def spread(self, number: Any) -> Any:
        """16 times the same number."""
        nothing = ir.Constant(ir.VectorType(number.type, 16), ir.Undefined)
        one = self.builder.insert_element(nothing, number, ir.Constant(_WORD, 0))
        return self.builder.shuffle_vector(one, nothing, ir.Constant(_WORDS, [0] * 16))

    def add_product(self, x: Any, y: Any, sums: Any) -> Any:
        """x * y + sums, rounded once where the processor can."""
        product = self.builder.fmul(x, y, flags=["contract"])
        return self.builder.fadd(product, sums, flags=["contract"])

    def larger(self, x: Any, y: Any) -> Any:
        return self.builder.select(self.builder.fcmp_ordered(">", x, y), x, y)

    def folded(self, variable: Any, join: Callable[[Any, Any], Any]) -> Any:
        """One number of 16."""
        x = self.builder.load(variable)
        for half in (8, 4, 2, 1):
            turned = ir.Constant(_WORDS, [(n + half) % 16 for n in range(16)])
            x = join(x, self.builder.shuffle_vector(x, x, turned))
        return self.builder.extract_element(x, ir.Constant(_WORD, 0))

    def rounded(self, x: Any) -> Any:
        """16 float32 as bfloat16."""
        bits = self.builder.bitcast(x, _WORDS)
        odd = self.builder.and_(self.builder.lshr(bits, _all(16, _WORD)), _all(1, _WORD))
        bits = self.builder.add(self.builder.add(bits, _all(0x7FFF, _WORD)), odd)
        return self.builder.trunc(self.builder.lshr(bits, _all(16, _WORD)), ir.VectorType(ir.IntType(16), 16))


def _size(number: int) -> Any:
    return ir.Constant(_SIZE, number)


def _all(number: float, kind: Any = _FLOAT) -> Any:
    """A vector of 16 equal constants."""
    value = int(number) if kind == _WORD else float(np.float32(number))
    return ir.Constant(ir.VectorType(kind, 16), [value] * 16)


def _in_registers(code: _Code, i: Any, j: Any) -> None:
    """A block of the product by sums in vector registers."""
    b, floats = code.builder, code.kinds[0].dtype == types.float32
    of_four = code.kinds[2].dtype == types.int32
    kind, name = (_WORD, "avx512.vpdpbusd") if of_four else (_FLOAT, "avx512bf16.dpbf16ps")
    number, numbers, added = (
        _FLOAT if floats else _WORD,
        _FLOATS if floats else _WORDS,
        ir.VectorType(kind, 16),
    )
    sums = [[code.variable(0, kind) for _ in range(_VECTORS)] for _ in range(_ROWS)]
    (_, inner, _), (of_left, of_right) = code.numbers(3), code.numbers(4)
    rows = [b.add(i, _size(n)) for n in range(_ROWS)]
    columns = [b.add(b.add(j, of_right), _size(16 * n)) for n in range(_VECTORS)]
    with code.steps(inner, 1) as r:
        lines = [b.load(code.at(1, r, column, numbers), align=4) for column in columns]
        for row, of_row in zip(rows, sums, strict=True):
            factor = code.spread(b.load(code.at(0, row, b.add(of_left, r), number)))
            for line, variable in zip(lines, of_row, strict=True):
                if floats:
                    found = code.add_product(factor, line, b.load(variable))
                else:
                    found = code.call(f"x86.{name}.512", added, b.load(variable), factor, line)
                b.store(found, variable)
    for row, of_row in zip(rows, sums, strict=True):
        for column, variable in zip(columns, of_row, strict=True):
            b.store(b.load(variable), code.at(2, row, column, added), align=4)


def _in_tiles(code: _Code, i: Any, j: Any) -> None:
    """A block of the product by AMX: tiles 0 to 3 are sums, 4 and 5 rows of the left, 6 and 7 columns of the
    right."""

    def move(name: str, tile: int, argument: int, row: Any, column: Any) -> None:
        kind = code.kinds[argument]
        array = code.context.make_array(kind)(code.context, code.builder, code.given[argument])
        stride = code.builder.extract_value(array.strides, 0)
        code.call(name, ir.VoidType(), number[tile], code.at(argument, row, column, _BYTE), stride)

    multiply = "x86.tdpbusd" if code.kinds[2].dtype == types.int32 else "x86.tdpbf16ps"
    number = [ir.Constant(_BYTE, n) for n in range(8)]
    (_, inner, _), (of_left, of_right) = code.numbers(3), code.numbers(4)
    starts = i, code.builder.add(j, of_right)
    rows, columns = ([start, code.builder.add(start, _size(16))] for start in starts)
    for tile in range(4):
        code.call("x86.tilezero", ir.VoidType(), number[tile])
    with code.steps(inner, 16) as r:
        for n in range(2):
            move("x86.tileloadd64", 4 + n, 0, rows[n], code.builder.add(of_left, r))
            move("x86.tileloadd64", 6 + n, 1, r, columns[n])
        for tile in range(4):
            code.call(multiply, ir.VoidType(), *(number[n] for n in (tile, 4 + tile // 2, 6 + tile % 2)))
    for tile in range(4):
        move("x86.tilestored64", tile, 2, rows[tile // 2], columns[tile % 2])
