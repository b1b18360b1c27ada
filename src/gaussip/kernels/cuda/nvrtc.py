"""CUDA C++ compiled while the program runs, and launched on torch's current stream.

NVRTC, the compiler that comes with torch's CUDA wheels, turns source into machine code for the card at hand;
the CUDA driver loads and launches it. Both are reached through ctypes. Machine code is kept in a folder of the
user (``$XDG_CACHE_HOME`` or ``~/.cache``, below it ``gaussip/cuda``), so that a shape is compiled once only.

NVIDIA's cuda.core (1.2) would replace about half of this file. It is not used because it needs cuda-bindings of the
CUDA release that torch was built for, 12 or 13: torch installs them since 2.10, gaussip takes torch from 2.4 on, and
gaussip[gpu] cannot name a release that depends on torch's. What is called here are some twenty functions whose
interface NVIDIA keeps, and the time of a launch does not count: rounds are replayed as CUDA graphs. When torch 2.10
is the oldest that is taken, cuda.core is the better choice.
"""

import contextlib
import ctypes
import functools
import hashlib
import os
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gaussip.errors import DeviceError

# Numbers of cuda.h
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_MOST_SHARED = 97  # CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
_BUFFER, _BUFFER_SIZE = 1, 2  # CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE


class Function(NamedTuple):
    """A kernel loaded on one device."""

    handle: ctypes.c_void_p
    device: int
    shared: int  #: bytes of dynamic shared memory


@functools.cache
def load(source: str, name: str, options: tuple[str, ...], device: int, shared: int = 0) -> Function:
    """The ``extern "C"`` kernel ``name`` of some CUDA C++ source, compiled for a device and loaded on it.

    Every launch takes ``shared`` bytes of dynamic shared memory.
    """
    handle = ctypes.c_void_p()
    with _context(device):
        _ask(_driver(), "cuModuleGetFunction", ctypes.byref(handle), _module(source, options, device), name.encode())
        _ask(_driver(), "cuFuncSetAttribute", handle, _MAX_DYNAMIC_SHARED, shared)
    return Function(handle, device, shared)


def launch(function: Function, grid: tuple[int, ...], block: tuple[int, ...], *arguments: Any) -> None:
    """Launch a kernel on torch's current stream; does not wait, and may be captured in a CUDA graph.

    Tensors and None are passed as pointers, integers as ``long long``, floats as ``double``.
    """
    import torch

    kinds, values = "", []
    for value in arguments:
        kinds += "d" if isinstance(value, float) else "q"
        values.append(value.data_ptr() if hasattr(value, "data_ptr") else value or 0)
    packed = struct.pack(kinds, *values)  # 8 bytes each: they lie as the kernel expects them
    buffer, size = ctypes.create_string_buffer(packed, len(packed)), ctypes.c_size_t(len(packed))
    extra = (ctypes.c_void_p * 5)(_BUFFER, ctypes.addressof(buffer), _BUFFER_SIZE, ctypes.addressof(size), None)
    stream = ctypes.c_void_p(torch.cuda.current_stream(function.device).cuda_stream)
    sizes = (*grid, 1, 1)[:3] + (*block, 1, 1)[:3]
    with _context(function.device):
        _ask(_driver(), "cuLaunchKernel", function.handle, *sizes, function.shared, stream, None, extra)


@functools.cache
def shared_memory(device: int) -> int:
    """Bytes of shared memory one block may take on a device."""
    size = ctypes.c_int()
    _ask(_driver(), "cuDeviceGetAttribute", ctypes.byref(size), _MOST_SHARED, _number(device))
    return size.value


def compile_source(compiler: ctypes.CDLL, source: str, options: tuple[str, ...]) -> bytes:
    """Machine code (PTX, where the target is a virtual one) of a program; DeviceError with the log if it fails."""
    program = ctypes.c_void_p()
    _ask(compiler, "nvrtcCreateProgram", ctypes.byref(program), source.encode(), b"gaussip.cu", 0, None, None)
    try:
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if compiler.nvrtcCompileProgram(program, len(options), given) != 0:
            log = _text_of(compiler, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            raise DeviceError(f"NVRTC could not compile gaussip's kernels with {' '.join(options)}:\n{log}")
        return _text_of(compiler, program, "PTX" if any("=compute_" in o for o in options) else "CUBIN")
    finally:
        compiler.nvrtcDestroyProgram(ctypes.byref(program))


def _text_of(compiler: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _ask(compiler, f"nvrtcGet{what}Size", program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    _ask(compiler, f"nvrtcGet{what}", program, text)
    return text.raw


@functools.cache
def _module(source: str, options: tuple[str, ...], device: int) -> ctypes.c_void_p:
    """The loaded module of a program; a device keeps it as long as the process lives."""
    import torch

    driver, compiler, module = _driver(), _compiler(), ctypes.c_void_p()
    options = (*options, _target(compiler, *torch.cuda.get_device_capability(device)), "--std=c++17")
    digest = hashlib.sha256("\0".join((source, *options, _version(compiler))).encode()).hexdigest()
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    file = Path(root) / "gaussip" / "cuda" / f"{digest}.cubin"
    with contextlib.suppress(OSError):
        if driver.cuModuleLoadData(ctypes.byref(module), file.read_bytes()) == 0:
            return module
    code = compile_source(compiler, source, options)
    _ask(driver, "cuModuleLoadData", ctypes.byref(module), code)
    _keep(file, code)
    return module


def _target(compiler: ctypes.CDLL, major: int, minor: int) -> str:
    """The compiler's option for a card; for a card newer than the compiler, PTX that the driver translates."""
    count, card = ctypes.c_int(), 10 * major + minor
    _ask(compiler, "nvrtcGetNumSupportedArchs", ctypes.byref(count))
    known = (ctypes.c_int * count.value)()
    _ask(compiler, "nvrtcGetSupportedArchs", known)
    older = [arch for arch in known if arch <= card]
    if major < 8 or not older:
        raise DeviceError(
            f"gaussip's CUDA kernels cannot run on this GPU (compute capability {major}.{minor}): they need 8.0 or "
            "newer, and an NVRTC that knows it; use a newer GPU, or device='cpu'"
        )
    return f"--gpu-architecture={'sm' if card in known else 'compute'}_{max(older)}"


@functools.cache
def _compiler() -> ctypes.CDLL:
    import torch

    beside = Path(torch.__file__).parent
    folders = [*sorted(beside.parent.glob("nvidia/*/lib")), beside / "lib"]
    names = [str(file) for folder in folders for file in sorted(folder.glob("libnvrtc.so*"))]
    major = str(torch.version.cuda).partition(".")[0]
    names.sort(key=lambda name: f".so.{major}" not in name)  # torch's own release first
    for name in (*names, f"libnvrtc.so.{major}", "libnvrtc.so"):
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    raise DeviceError(
        "gaussip's CUDA kernels need NVRTC (libnvrtc.so), which is neither beside PyTorch nor on the loader's path; "
        f"install the nvidia-cuda-nvrtc wheel for CUDA {torch.version.cuda}, or use device='cpu'"
    )


@functools.cache
def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DeviceError("the NVIDIA driver (libcuda.so.1) is missing; install it, or use device='cpu'") from error


@functools.cache
def _primary_context(device: int) -> ctypes.c_void_p:
    """The context torch works in; held as long as the process lives."""
    context = ctypes.c_void_p()
    _ask(_driver(), "cuDevicePrimaryCtxRetain", ctypes.byref(context), _number(device))
    return context


@functools.cache
def _number(device: int) -> ctypes.c_int:
    """The driver's own number of a device."""
    number = ctypes.c_int()
    _ask(_driver(), "cuInit", 0)
    _ask(_driver(), "cuDeviceGet", ctypes.byref(number), device)
    return number


@contextlib.contextmanager
def _context(device: int) -> Iterator[None]:
    """Make torch's context current where it is not, as in a thread that has not used torch's GPU yet."""
    wanted, current = _primary_context(device), ctypes.c_void_p()
    _ask(_driver(), "cuCtxGetCurrent", ctypes.byref(current))
    if current.value == wanted.value:
        yield
        return
    _ask(_driver(), "cuCtxPushCurrent_v2", wanted)
    try:
        yield
    finally:
        _ask(_driver(), "cuCtxPopCurrent_v2", ctypes.byref(current))


def _ask(library: ctypes.CDLL, function: str, *arguments: Any) -> None:
    """Call a function of the driver or the compiler; DeviceError with its own words if it refuses."""
    code = getattr(library, function)(*arguments)
    if code != 0:
        text = ctypes.c_char_p()
        if function.startswith("cu"):
            library.cuGetErrorString(code, ctypes.byref(text))
        raise DeviceError(f"{function} failed: {(text.value or b'error').decode()} (code {code})")


def _version(compiler: ctypes.CDLL) -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _ask(compiler, "nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def _keep(file: Path, code: bytes) -> None:
    """Write through a temporary file, so that no other process reads half of it; where it cannot, it is no error."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(dir=file.parent)
        with os.fdopen(number, "wb") as handle:
            handle.write(code)
        os.replace(name, file)
