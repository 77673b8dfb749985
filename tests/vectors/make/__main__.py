"""Writes the vectors of a family, or of all: `python tests/vectors/make all`.

A module beside this one that calls `Family` is a family's generator; it writes `tests/vectors/<family>.pb`.
"""
import pathlib
import runpy
import sys

HERE = pathlib.Path(__file__).parent
FAMILIES = sorted(p.stem for p in HERE.glob("*.py") if p.stem not in ("__main__", "family"))


def main():
    asked = sys.argv[1:]
    unknown = [name for name in asked if name not in FAMILIES + ["all"]]
    if not asked or unknown:
        sys.exit(f"expected `all` or some of {', '.join(FAMILIES)}; got {' '.join(unknown) or 'nothing'}")
    for name in FAMILIES if "all" in asked else asked:
        runpy.run_path(str(HERE / f"{name}.py"), run_name="__main__")


main()
