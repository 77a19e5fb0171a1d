"""Mutants: a module of the running program with one line of its source changed, until the test ends."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType


@contextmanager
def mutated(module: ModuleType, old: str, new: str) -> Iterator[None]:
    """Changes the only `old` text in a module's source to `new`.

    Functions and methods stay the same objects and get the changed code, so that whoever imported them has it
    too. Numbers at the top of the module are changed in the module alone.
    """
    source = inspect.getsource(module)
    assert source.count(old) == 1, f"{old!r} is {source.count(old)} times in {module.__name__}"
    changed = ModuleType(module.__name__)
    changed.__dict__.update({"__file__": module.__file__, "__package__": module.__package__})
    exec(compile(source.replace(old, new), str(module.__file__), "exec"), changed.__dict__)  # noqa: S102  our own source
    codes = _codes(module), _codes(changed)
    numbers = {name: value for name, value in vars(module).items() if isinstance(value, float)}
    assert codes[0].keys() == codes[1].keys()
    functions = dict(_functions(module))
    try:
        for name, code in codes[1].items():
            functions[name].__code__ = code
        vars(module).update({name: vars(changed)[name] for name in numbers})
        yield
    finally:
        for name, code in codes[0].items():
            functions[name].__code__ = code
        vars(module).update(numbers)


def _codes(module: ModuleType) -> dict[str, CodeType]:
    return {name: function.__code__ for name, function in _functions(module)}


def _functions(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    """The functions that a module defines, and the methods of its classes."""
    for name, value in vars(module).items():
        if inspect.isfunction(value) and value.__module__ == module.__name__:
            yield name, value
        elif inspect.isclass(value) and value.__module__ == module.__name__:
            for inner, method in vars(value).items():
                plain = method.fget if isinstance(method, property) else method
                if inspect.isfunction(plain) and plain.__code__.co_filename == module.__file__:
                    yield f"{name}.{inner}", plain
