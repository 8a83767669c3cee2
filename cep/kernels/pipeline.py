"""Numba's way from a function to machine code, without what kernels have no use for. Rules:

- A kernel is optimised once, whole. What it calls (`inlined`) is LLVM code that is linked into it, and neither optimised nor made
  machine code by itself: Numba does both for each function, and a wrapper for C and one for Python, which took half of the time.
- Passes for closures, `with`, array expressions and literals are left out, and so are the annotations for people.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numba
from numba import _dynfunc
from numba.core import typed_passes as typed
from numba.core import types
from numba.core import untyped_passes as untyped
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import register_pass
from numba.core.funcdesc import PythonFunctionDescriptor
from numba.core.lowering import Lower
from numba.core.targetconfig import ConfigStack
from numba.core.typing.templates import infer, infer_global, make_intrinsic_template

_UNTYPED: tuple[Any, ...] = (
    untyped.TranslateByteCode,
    untyped.FixupArgs,
    untyped.IRProcessing,
    untyped.GenericRewrites,
    untyped.ReconstructSSA,
)
_TYPED: tuple[Any, ...] = (
    typed.NopythonTypeInference,
    typed.PreLowerStripPhis,
    typed.IRLegalization,
)


class Linkable(JITCodeLibrary):
    """LLVM code to be linked into kernels; never machine code by itself."""

    def finalize(self) -> None:
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


@ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object)
def _refuse(*_: Any) -> Any:
    raise TypeError("a part of kernels cannot be called")


_REFUSE = ctypes.cast(_refuse, ctypes.c_void_p).value


@register_pass(mutates_CFG=True, analysis_only=False)
class LowerPart(typed.BaseNativeLowering):
    """LLVM code and nothing else."""

    _name = "cep_lower_part"

    @property
    def lowering_class(self):
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
            lower = Lower(context, state.library, described, state.func_ir, metadata=state.metadata)
            lower.lower()
        entry = _dynfunc.make_function(described.lookup_module(), described.qualname.split(".")[-1], "", _REFUSE, lower.env, (state.library,))
        context.insert_user_function(entry, described, [state.library])
        from numba.core.compiler import _LowerResult

        state["cr"] = _LowerResult(described, lower.call_helper, cfunc=entry, env=lower.env)
        return True


class _StraightCompiler(CompilerBase):
    """Runs passes one after the other: Numba's PassManager does book-keeping for each, a tenth of all the time."""

    passes: tuple[Any, ...]

    def define_pipelines(self) -> list[Any]:
        return []

    def _compile_core(self) -> Any:
        with ConfigStack().enter(self.state.flags.copy()):
            for each in self.passes:
                each().run_pass(self.state)
        return self.state.cr


class PartCompiler(_StraightCompiler):
    passes = (*_UNTYPED, *_TYPED, LowerPart, typed.NoPythonBackend)


class KernelCompiler(_StraightCompiler):
    passes = (*_UNTYPED, *_TYPED, typed.NativeLowering, typed.NoPythonBackend)

    def _compile_core(self) -> Any:
        self.state.flags.no_cfunc_wrapper = True
        return super()._compile_core()


_parts: list[Any] = []  # Numba itself only holds them weakly


def as_part(function: Callable[..., Any], **options: Any) -> None:
    """Makes kernels that call `function` have it linked into them."""
    dispatcher = numba.njit(pipeline_class=PartCompiler, **options)(function)
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
