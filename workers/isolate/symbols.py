"""Function names in native libraries: looked up by address in a library's symbol table, and demangled.

A library exports few names, but some, such as torch_xla's, keep the symbol table (`.symtab`) with all of
them. Formats: the ELF-64 object file format, little-endian (header, section headers and symbols);
`__cxa_demangle` of the Itanium C++ ABI.
"""

import ctypes
import mmap
import struct
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

ELF_64_LITTLE = b"\x7fELF\x02\x01"
"""How a 64-bit little-endian ELF file begins."""

SYMBOL_TABLE, FUNCTION = 2, 2
"""The type of a section with symbols (SHT_SYMTAB), and that of a symbol that is a function (STT_FUNC)."""

KEPT = 4096
"""How many names are remembered: those of a few hundred crashes."""

SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)


class _Section(NamedTuple):
    """A section header of an ELF file."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int


@lru_cache(maxsize=KEPT)
def name_at(library: str, offset: int) -> str:
    """The mangled name of the function at `offset` bytes into a library.

    Empty where the library has no symbol table or cannot be read. Crashes repeat, and a table has millions of
    symbols.
    """
    try:
        with Path(library).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as elf:
            return _name_in(elf, offset) if elf[:6] == ELF_64_LITTLE else ""
    except (OSError, ValueError):  # the file is gone, or empty
        return ""


def _name_in(elf: mmap.mmap, offset: int) -> str:
    """The name of the function at `offset`, from the first symbol table that has it.

    The ELF header has the offset of the section headers at byte 40, their size and their number at byte 58.
    """
    (start,), (size, count) = struct.unpack_from("<Q", elf, 40), struct.unpack_from("<HH", elf, 58)
    sections = [
        _Section(*struct.unpack_from("<IIQQQQII", elf, start + index * size)) for index in range(count)
    ]
    for table in sections:
        if table.kind == SYMBOL_TABLE:
            symbols = np.frombuffer(elf[table.offset : table.offset + table.size], SYMBOL)
            inside = (symbols["value"] <= offset) & (offset < symbols["value"] + symbols["size"])
            functions = symbols[inside & (symbols["info"] & 0xF == FUNCTION)]
            if len(functions):
                name = sections[table.link].offset + int(functions["name"][0])
                return elf[name : elf.find(b"\0", name)].decode(errors="replace")
    return ""


def demangled(name: str) -> str:
    """What `c++filt` would print; `name` itself where it is no C++ name, or where there is no C++ library."""
    try:
        demangle = getattr(ctypes.CDLL("libstdc++.so.6"), "__cxa_demangle")
    except OSError:
        return name
    demangle.restype = ctypes.c_void_p
    text = demangle(name.encode(), None, None, None)  # never freed: a few bytes, once per crash
    return ctypes.string_at(text).decode(errors="replace") if text else name
