#!/usr/bin/env python3
"""Compiles the CUDA kernels of this folder to PTX, with NVRTC.

    compile.py WHEELS OUT

WHEELS is where pip put NVIDIA's wheels (`pip install --target`), OUT the folder that the PTX goes to. The first line of a
kernel's file names its targets, and options if it has any: `// sm_75 sm_90a --use_fast_math`. Each is compiled twice:
optimised to NAME.TARGET.ptx, and for a debugger, which is without any optimisation, to NAME.TARGET.debug.ptx; with
`--optimised-only`, for what has to stay in registers, just the former. The launch files
are copied next to them: `NAME.json` or `NAME.WORD.json` belongs to every `NAME.*.ptx`. sweep.py adds a text that has every
rounding.
"""

import ctypes
import pathlib
import shutil
import sys

import sweep

FORMS = {"": [], ".debug": ["--device-debug"]}
OPTIMISED_ONLY = "--optimised-only"


class Nvrtc:
    """The few functions of the library that compile a text."""

    def __init__(self, wheels: pathlib.Path):
        root = wheels / "nvidia" / "cu13"
        # The library opens its builtins by name alone, which finds what is open already.
        ctypes.CDLL(str(next((root / "lib").glob("libnvrtc-builtins.so.*"))), ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(str(next((root / "lib").glob("libnvrtc.so.*"))))
        self.includes = [root / "include", root / "include" / "cccl"]

    def call(self, name: str, *arguments) -> int:
        return getattr(self.library, "nvrtc" + name)(*arguments)

    def text(self, program: ctypes.c_void_p, what: str) -> str:
        size = ctypes.c_size_t()
        self.call(f"Get{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self.call(f"Get{what}", program, buffer)
        return buffer.value.decode()

    def compile(self, path: pathlib.Path, target: str, options: list[str]) -> str:
        includes = [f"--include-path={folder}" for folder in self.includes]
        options = [f"--gpu-architecture={target}", "--std=c++17", *includes, *options]
        flags = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        program = ctypes.c_void_p()
        source, name = path.read_bytes(), path.name.encode()
        if self.call("CreateProgram", ctypes.byref(program), source, name, 0, None, None):
            sys.exit(f"{path}: NVRTC makes no program of it")
        if self.call("CompileProgram", program, len(options), flags):
            sys.exit(f"{path} for {target}:\n{self.text(program, 'ProgramLog')}")
        ptx = self.text(program, "PTX")
        self.call("DestroyProgram", ctypes.byref(program))
        return ptx


def main(wheels: pathlib.Path, out: pathlib.Path) -> None:
    here = pathlib.Path(__file__).parent
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    nvrtc = Nvrtc(wheels)
    for path in sorted(here.glob("*.cu")):
        words = path.read_text().splitlines()[0].removeprefix("//").split()
        own = [word for word in words if word.startswith("-")]
        forms = {form: options for form, options in FORMS.items() if not form or OPTIMISED_ONLY not in own}
        options_of_all = [word for word in own if word != OPTIMISED_ONLY]
        for target in (word for word in words if word not in own):
            for form, options in forms.items():
                (out / f"{path.stem}.{target}{form}.ptx").write_text(nvrtc.compile(path, target, options_of_all + options))
    for path in here.glob("*.json"):
        shutil.copy(path, out)
    sweep.write(out)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
