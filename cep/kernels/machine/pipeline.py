"""Numba's way from a function to machine code, without what kernels have no use for. Rules:

- A kernel is optimised once, whole. What it calls (`inlined`) is LLVM code that is linked into it, and neither optimised nor made
  machine code by itself: Numba does both for each function, and a wrapper for C and one for Python, which took half of the time.
- Passes for closures, `with`, array expressions and literals are left out, and so are the annotations for people.
- What is no part is typed once in a process for the same types; `int`, `min` and `max` are instructions.
- An index that is computed is never counted from the end, unlike Python's: kernels have no use for that, and it is a test at each access.
- What Numba keeps inside is used here and nowhere else: with another version of Numba, read this first.
- With `CEP_STOCK_NUMBA=1` nothing of this is used: Numba compiles as it does for all. Slower to make and to run, and the same
  answers; what goes wrong here and not there is ours, or a bug of LLVM that ours brings out.
"""

# Numba's functions have no types.
# mypy: allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

import ctypes
import operator
import os
import sys
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from numba import _dynfunc  # type: ignore[attr-defined]  # a module in C
from numba.core import config as numba_config
from numba.core import ir, sigutils, types
from numba.core import typed_passes as typed
from numba.core import untyped_passes as untyped
from numba.core.codegen import JITCodeLibrary, get_host_cpu_features
from numba.core.compiler import CompilerBase, _LowerResult
from numba.core.compiler_machinery import register_pass
from numba.core.errors import NumbaError as NumbaError  # for the other modules
from numba.core.funcdesc import PythonFunctionDescriptor
from numba.core.ir_utils import build_definitions
from numba.core.lowering import Lower
from numba.core.ssa import reconstruct_ssa
from numba.core.targetconfig import ConfigStack
from numba.core.transforms import canonicalize_cfg
from numba.core.typing.templates import infer, infer_global, make_intrinsic_template, signature
from numba.cpython.builtins import cast_int, do_minmax
from numba.np.arrayobj import load_item, store_item

from cep.kernels.jit import APART

normalize_signature: Callable[[str], Any] = sigutils.normalize_signature
config: Any = numba_config  # its attributes are made when it is imported, from NUMBA_* variables

#: Is nothing of this used in this process?
STOCK = os.environ.get("CEP_STOCK_NUMBA", "") not in ("", "0", "false")

# A loop over rows takes several vectors at a time, so that one need not wait for what another's last operation gives. LLVM does that
# for short loops only; a chain of 50 multiplications and additions took twice the time. Since Ice Lake an addition takes four cycles, there
# are registers for eight vectors at a time, and vectors of 512 bits slow no clock down, which LLVM still avoids.
_WIDE = bool(llvm.get_host_cpu_features().get("avx512vbmi2"))
if not STOCK:
    llvm.set_option("numba-cep", f"-force-vector-interleave={8 if _WIDE else 4}")
if _WIDE and config.CPU_FEATURES is None and not STOCK:
    config.CPU_FEATURES = f"{get_host_cpu_features()},-prefer-256-bit"


@cache
def machine() -> bytes:
    """What machine code depends on besides its sources."""
    versions = (sys.version, numba.__version__, np.__version__, llvm.llvm_version_info)
    cpu = (llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    return repr((versions, cpu, config.OPT, config.BOUNDSCHECK, *(["stock"] if STOCK else []))).encode()


def _least(a: Any, b: Any) -> Any:
    return min(a, b)


def _greatest(a: Any, b: Any) -> Any:
    return max(a, b)


#: To Numba these are Python functions, each compiled for itself for every combination of types.
_QUICK: dict[Any, Any] = {int: cast_int, min: _least, max: _greatest}


class _Quick:
    """Puts instructions in place of some of Python's functions."""

    def run_pass(self, state: Any) -> None:
        for block in state.func_ir.blocks.values():
            for each in block.find_insts(ir.Assign):
                if isinstance(each.value, ir.Global) and isinstance(each.value.value, Hashable):
                    each.value.value = _QUICK.get(each.value.value, each.value.value)


_known: dict[Any, Any] = {}


def _remembered(key: Any, find: Callable[[], Any]) -> Any:
    found = _known.get(key)
    if found is None:
        found = _known[key] = find()
    return found


class _Straightened:
    """Blocks without blocks that nothing reaches."""

    def run_pass(self, state: Any) -> None:
        state.func_ir.blocks = canonicalize_cfg(state.func_ir.blocks)


class _Single:
    """A variable for each assignment."""

    def run_pass(self, state: Any) -> None:
        reconstruct_ssa(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)


class _WithoutPhis(typed.PreLowerStripPhis):
    """Numba asks here when each variable is used last, and does not use the answer."""

    def run_pass(self, state: Any) -> None:
        state.func_ir = self._strip_phi_nodes(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)


class _Deletions(typed.IRLegalization):
    """Where references are counted, it is said when each variable is used last."""

    def run_pass(self, state: Any) -> None:
        if state.flags.nrt:
            super().run_pass(state)


_UNTYPED: tuple[Any, ...] = (
    untyped.TranslateByteCode,
    untyped.FixupArgs,
    _Straightened,
    _Quick,
    untyped.GenericRewrites,
    _Single,
)
_TYPED: tuple[Any, ...] = (
    typed.NopythonTypeInference,
    _WithoutPhis,
    _Deletions,
)


class _Plain(Lower):
    """LLVM code of a function in which no references are counted: what a variable had before does not matter.

    What an operator of two numbers is was asked four times, and each look into an array made views of it: half of the LLVM code.
    """

    def lower_block(self, block: Any) -> None:
        self.pre_block(block)
        for each in block.body:
            self.loc = each.loc
            self.lower_inst(each)
        self.post_block(block)

    def debug_print(self, message: str) -> None:
        pass

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def lower_inst(self, inst: Any) -> Any:
        if isinstance(inst, ir.StaticSetItem) and self._is_place(inst.target, inst.index):
            return self.lower_setitem(inst.target, inst.index_var, inst.value, self.fndesc.calltypes[inst])
        return super().lower_inst(inst)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        if expr.op == "static_getitem" and self._is_place(expr.value, expr.index):
            return self.lower_getitem(resty, expr, expr.value, expr.index_var, self.fndesc.calltypes[expr])
        return super().lower_expr(resty, expr)

    def lower_binop(self, resty: Any, expr: Any, op: Any) -> Any:
        wanted = self.fndesc.calltypes[expr]
        if op is operator.pow or not all(isinstance(each, types.Number | types.Boolean) for each in wanted.args):
            return super().lower_binop(resty, expr, op)
        typing = self.context.typing_context
        function = typing.resolve_value_type(op)
        found = _remembered((function, wanted.args), lambda: function.get_call_type(typing, wanted.args, {}))
        operands = [self._cast_var(*each) for each in zip((expr.lhs, expr.rhs), wanted.args, strict=True)]
        result = self.context.get_function(function, found)(self.builder, operands)
        return self.context.cast(self.builder, result, wanted.return_type, resty)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        place = self._place(value, index, signature)
        if place is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        item = load_item(self.context, self.builder, self.typeof(value.name), place)
        return self.context.cast(self.builder, item, signature.return_type, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        place = self._place(target_var, index_var, signature)
        if place is None:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        kind = self.typeof(target_var.name)
        return store_item(self.context, self.builder, kind, self._cast_var(value_var, kind.dtype), place)

    def _is_place(self, array: Any, index: Any) -> bool:
        """Is it a place in an array, and not counted from its end?"""
        whole = index if isinstance(index, tuple) else (index,)
        return isinstance(self.typeof(array.name), types.Array) and all(isinstance(each, int) and each >= 0 for each in whole)

    def _place(self, array: Any, index: Any, signature: Any) -> Any:
        """Address of an item of an array; None if it is no item, or indices are checked. An index that is computed is never counted from
        the end: that would be a test at each access, and registers for it."""
        kind, asked = self.typeof(array.name), signature.args[1]
        whole = isinstance(asked, types.BaseTuple)
        kinds = list(asked) if whole else [asked]
        plain = isinstance(kind, types.Array) and kind.layout == "C" and all(isinstance(each, types.Integer) for each in kinds)
        if not plain or len(kinds) != kind.ndim or self.context.enable_boundscheck:
            return None
        value, given, at = self.loadvar(array.name), self._cast_var(index, asked), None
        shape = field_of(self.context, self.builder, kind, value, "shape")
        for dimension, each in enumerate(kinds):
            size = self.builder.extract_value(shape, dimension)
            one = self.builder.extract_value(given, dimension) if whole else given
            word = self.context.cast(self.builder, one, each, types.intp)
            at = word if at is None else self.builder.add(self.builder.mul(at, size), word)
        return self.builder.gep(field_of(self.context, self.builder, kind, value, "data"), [at])


def field_of(context: Any, builder: Any, kind: Any, array: Any, name: str) -> Any:
    """The field `name` of an array: its data, its shape."""
    return builder.extract_value(array, context.data_model_manager[kind].get_field_position(name))


def _lowering(flags: Any) -> Any:
    return Lower if flags.nrt else _Plain


_WRAPPER = "_ZN7cpython"  # how names of wrappers begin


class Linkable(JITCodeLibrary):
    """LLVM code to be linked into kernels; never machine code by itself."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


class Optimized(JITCodeLibrary):
    """A kernel: optimised once. Numba does so function by function first, and cheaply before that, to find references that it need
    not count; there are none. Its wrapper, which runs once a call and is most of the code of a small kernel, is not optimised."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if function.name.startswith(_WRAPPER):
                function.add_function_attribute("optnone")
                function.add_function_attribute("noinline")
            elif APART in function.name and not function.is_declaration:
                function.add_function_attribute("noinline")
                function.linkage = "internal"  # so it is given only what it looks at
        manager, builder = self._codegen._module_pass_manager()
        manager.run(self._final_module, builder)

    def _get_module_for_linking(self) -> Any:
        """A kernel is never linked. What is kept beside the machine code says only which functions that has: it loads in less time."""
        self._ensure_finalized()
        names = [function.name for function in self._final_module.functions if not function.is_declaration]
        return llvm.parse_assembly("\n".join(f'define void @"{name}"() {{ ret void }}' for name in names))


@ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object)
def _refuse(*_: Any) -> Any:
    raise TypeError("a part of kernels cannot be called")


#: What a part looks like to Python, which never calls it.
_REFUSE = ctypes.cast(_refuse, ctypes.c_void_p).value


@register_pass(mutates_CFG=True, analysis_only=False)
class LowerPart(typed.BaseNativeLowering):
    """LLVM code and nothing else: no wrappers, nothing to execute."""

    _name: Any = "cep_lower_part"

    @property
    def lowering_class(self) -> Any:
        return Lower

    def run_pass(self, state: Any) -> bool:
        context, flags = state.targetctx, state.flags
        state.library = Linkable(context.codegen(), state.func_id.func_qualname)
        described = PythonFunctionDescriptor.from_specialized_function(
            state.func_ir,
            state.typemap,
            state.return_type,
            state.calltypes,
            mangler=context.mangler,
            inline=flags.forceinline,
            noalias=flags.noalias,
            abi_tags=[flags.get_mangle_string()],
        )
        with context.push_code_library(state.library):
            lower = _lowering(flags)(context, state.library, described, state.func_ir, metadata=state.metadata)
            lower.lower()
        entry = _dynfunc.make_function(
            described.lookup_module(), described.qualname.split(".")[-1], "", _REFUSE, lower.env, (state.library,)
        )
        context.insert_user_function(entry, described, [state.library])
        state["cr"] = _LowerResult(described, lower.call_helper, cfunc=entry, env=lower.env)
        return True


class _Remembering:
    """A typing context that types what is no part of kernels once for the same types."""

    def __init__(self, context: Any) -> None:
        self.context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self.context, name)

    def resolve_function_type(self, function: Any, arguments: Any, keywords: Any) -> Any:
        def find() -> Any:
            return self.context.resolve_function_type(function, arguments, keywords)

        return find() if keywords or isinstance(function, types.Dispatcher) else _remembered((function, arguments), find)


class _StraightCompiler(CompilerBase):
    """Runs passes one after the other: Numba's PassManager does book-keeping for each, a tenth of all the time."""

    passes: tuple[Any, ...]

    def define_pipelines(self) -> list[Any]:
        return []

    def _compile_core(self) -> Any:
        with ConfigStack().enter(self.state.flags.copy()):
            self.state.typingctx = _Remembering(self.state.typingctx)
            for each in self.passes:
                each().run_pass(self.state)
        return self.state.cr


class PartCompiler(_StraightCompiler):
    """What kernels call."""

    passes = (*_UNTYPED, *_TYPED, LowerPart, typed.NoPythonBackend)


class LowerKernel(typed.NativeLowering):
    """LLVM code, its wrapper for Python, and machine code of both."""

    def run_pass(self, state: Any) -> bool:
        self.lowers = _lowering(state.flags)
        return bool(super().run_pass(state))

    @property
    def lowering_class(self) -> Any:
        return self.lowers


class KernelCompiler(_StraightCompiler):
    """What Python calls. Without reference counting it is optimised once."""

    passes = (*_UNTYPED, *_TYPED, LowerKernel, typed.NoPythonBackend)

    def _compile_core(self) -> Any:
        self.state.flags.no_cfunc_wrapper = True
        if not self.state.flags.nrt:
            self.state.library = Optimized(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
        return super()._compile_core()


_parts: list[Any] = []  # Numba itself only holds them weakly


def _compiled_by(pipeline: type[CompilerBase], options: Mapping[str, Any]) -> Any:
    return numba.njit(**options) if STOCK else numba.njit(pipeline_class=pipeline, **options)


def as_kernel(function: Callable[..., Any], **options: Any) -> Any:
    """A function that Python calls, to be compiled for the types that it is told."""
    return _compiled_by(KernelCompiler, options)(function)


def address_of(compiled: Any) -> int:
    """Where the machine code of a kernel of one signature begins, for kernels."""
    (made,) = compiled.overloads.values()
    address = made.library.get_pointer_to_function(made.fndesc.llvm_func_name)
    if not address:
        raise RuntimeError(f"the machine code of {made.fndesc.qualname!r} has no function {made.fndesc.llvm_func_name!r}")
    return int(address)


def as_part(function: Callable[..., Any], **options: Any) -> None:
    """Makes kernels that call `function` have it linked into them."""
    dispatcher = _compiled_by(PartCompiler, options)(function)
    _parts.append(dispatcher)
    infer_global(function, types.Dispatcher(dispatcher))


def as_instructions(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Marks what kernels have in place of a call of `function`: a definition as Numba's intrinsics have it."""

    def mark(definition: Any) -> Any:
        template = make_intrinsic_template(function, definition, function.__name__)
        infer(template)
        infer_global(function, types.Function(template))
        return definition

    return mark


def _choosing(comparison: Any) -> Any:
    def definition(typing: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return do_minmax(context, builder, signature.args, arguments, comparison)

        unified = typing.unify_types(a, b)
        return None if unified is None else (signature(unified, unified, unified), generate)

    return definition


as_instructions(_least)(_choosing(operator.lt))
as_instructions(_greatest)(_choosing(operator.gt))
