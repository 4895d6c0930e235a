"""Matrix products in Numba loops whose sums stay in the processor's registers.

LLVM keeps the sums of a loop over arrays in memory, since it cannot know that the arrays do not overlap. A
value of this type is `LANES` float32 that it keeps in a register, or in two or four narrower ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from mexma_cli.numerics.compiling import inlined

ir: Any = cgutils.ir
LANES = 16
_VECTOR = ir.VectorType(ir.FloatType(), LANES)


class _Lanes(types.Type):
    def __init__(self) -> None:
        super().__init__("lanes")


_TYPE = _Lanes()


@register_model(_Lanes)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


@intrinsic  # type: ignore[untyped-decorator]
def _zeros(_: Any) -> Any:
    return _TYPE(), lambda context, builder, signature, arguments: ir.Constant(_VECTOR, [0.0] * LANES)


@intrinsic  # type: ignore[untyped-decorator]
def _load(_: Any, rows: Any, row: Any, column: Any) -> Any:
    """rows[row, column : column + LANES]"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_place(context, builder, signature, arguments), typ=_VECTOR, align=4)

    return _TYPE(rows, row, column), code


@intrinsic  # type: ignore[untyped-decorator]
def _store(_: Any, rows: Any, row: Any, column: Any, values: Any) -> Any:
    """rows[row, column : column + LANES] = values"""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[3], _place(context, builder, signature, arguments), align=4)
        return context.get_dummy_value()

    return types.void(rows, row, column, values), code


@intrinsic  # type: ignore[untyped-decorator]
def _add_product(_: Any, factor: Any, values: Any, sums: Any) -> Any:
    """factor * values + sums, rounded once where the processor can."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, vector, before = arguments
        nothing = ir.Constant(_VECTOR, ir.Undefined)
        one = builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        same = builder.shuffle_vector(one, nothing, everywhere)
        product = builder.fmul(same, vector, flags=["contract"])
        return builder.fadd(product, before, flags=["contract"])

    return _TYPE(types.float32, values, sums), code


def _place(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind = signature.args[0]
    array = context.make_array(kind)(context, builder, arguments[0])
    at = [context.cast(builder, arguments[n], signature.args[n], types.intp) for n in (1, 2)]
    place = cgutils.get_item_pointer(context, builder, kind, array, at)
    return builder.bitcast(place, _VECTOR.as_pointer())


@inlined
def multiply(
    left: np.ndarray, right: np.ndarray, rows: int, inner: int, columns: int, out: np.ndarray
) -> None:
    """out[i, j] = sum over r < inner of left[i, r] * right[r, j], for i < rows and j < columns, and somewhat
    further: rows are taken by 8 and columns by `LANES`, for which all three arrays need to have room."""
    for i in range(0, rows, 8):
        for j in range(0, columns, LANES):
            a, b, c, d = _zeros(), _zeros(), _zeros(), _zeros()
            e, f, g, h = _zeros(), _zeros(), _zeros(), _zeros()
            for r in range(inner):
                line = _load(right, r, j)
                a = _add_product(left[i, r], line, a)
                b = _add_product(left[i + 1, r], line, b)
                c = _add_product(left[i + 2, r], line, c)
                d = _add_product(left[i + 3, r], line, d)
                e = _add_product(left[i + 4, r], line, e)
                f = _add_product(left[i + 5, r], line, f)
                g = _add_product(left[i + 6, r], line, g)
                h = _add_product(left[i + 7, r], line, h)
            _store(out, i, j, a)
            _store(out, i + 1, j, b)
            _store(out, i + 2, j, c)
            _store(out, i + 3, j, d)
            _store(out, i + 4, j, e)
            _store(out, i + 5, j, f)
            _store(out, i + 6, j, g)
            _store(out, i + 7, j, h)
